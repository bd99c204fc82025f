import { expect, it } from 'vitest';
import { runRace } from '../../../demo/src/session/experiments/race.ts';
import type { Race, SessionEvent } from '../../../demo/src/session/types.ts';
import { measuringOn } from './measuring.ts';

/** Runs a race whose turns take these times, in order: computed, pulled, pulled, computed, computed, pulled. */
async function raced(timesMs: readonly number[]): Promise<Race> {
  let asked = 0;
  const recorder = {
    async *generate() {
      // Each measured turn follows one that replays the history.
      const ttftMs = timesMs[(asked++ - 1) / 2] ?? 1;
      yield {
        text: 'amber',
        final: {
          ...{ text: 'amber', ttftMs, stagesMs: { p_prefill: ttftMs } },
          ...{ promptTokenIds: [1, 2], outputTokenIds: [3], prompt: { pulledTokens: 0, computedTokens: 2 } },
          transfer: { dToP: null },
        },
      };
    },
    lastTurn: () => null,
    endConversation: async () => {},
  };
  const { measuring, last } = measuringOn(recorder);
  const history = [
    { role: 'user', content: 'Tell me a story.' },
    { role: 'assistant', content: 'The end.' },
  ];
  await runRace({ ...measuring, history, question: 'Who came?' });
  return (last() as Extract<SessionEvent, { kind: 'race' }> | null)!.race!;
}

it('a race shows the stages of its median run, not of its last run', async () => {
  const { recompute, pull } = await raced([10, 4, 9, 30, 20, 2]);
  expect(recompute).toMatchObject({
    ...{ phase: 'done', ttftMs: 20, runsMs: [10, 30, 20], stagesMs: { p_prefill: 20 } },
  });
  expect(pull).toMatchObject({ phase: 'done', ttftMs: 4, runsMs: [4, 9, 2], stagesMs: { p_prefill: 4 } });
});
