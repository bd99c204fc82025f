/** The environment of a page measurement on a fake recorder, and its last event. */
import type { Measuring } from '../../../demo/src/session/experiments/measuring.ts';
import { defaultSettings } from '../../../demo/src/session/settings.ts';
import type { SessionEvent } from '../../../demo/src/session/types.ts';

export function measuringOn(recorder: object) {
  let last: SessionEvent | null = null;
  const measuring = {
    engines: { configure: async () => {}, running: { recorder } },
    settings: defaultSettings,
    signal: new AbortController().signal,
    emit: (event: SessionEvent) => {
      last = event;
    },
    now: () => 0,
  } as unknown as Measuring;
  return { measuring, last: () => last };
}
