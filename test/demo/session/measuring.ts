/** The environment of a page measurement on a fake recorder, its last event, and the settings that engines were given. */
import type { Measuring } from '../../../demo/src/session/experiments/measuring.ts';
import { defaultSettings, type Settings } from '../../../demo/src/session/settings.ts';
import type { SessionEvent } from '../../../demo/src/session/types.ts';

export function measuringOn(recorder: object, settings: Settings = defaultSettings) {
  const configured: Settings[] = [];
  let last: SessionEvent | null = null;
  const measuring = {
    engines: { configure: async (given: Settings) => void configured.push(given), running: { recorder } },
    settings,
    signal: new AbortController().signal,
    emit: (event: SessionEvent) => {
      last = event;
    },
    now: () => 0,
  } as unknown as Measuring;
  return { measuring, last: () => last, configured };
}
