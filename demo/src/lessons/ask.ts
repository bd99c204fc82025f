/** Tasks shared by several lessons. */
import { systemClock } from '../../../src/platform/clock.ts';
import { READING_MS } from '../session/reading.ts';
import type { SessionActions, SessionState } from '../session/types.ts';

/** Asks the shipped conversation's next three turns; stops if one is stopped. At slow speed it pauses between turns for reading. */
export async function askThreeTimes(actions: SessionActions, state: SessionState): Promise<void> {
  for (let i = 0; i < 3; i++) {
    if (i > 0 && state.settings.peek().speed === 'slow') await systemClock.sleep(READING_MS);
    await actions.step();
    if (!state.turns.peek().at(-1)?.result) return;
  }
}
