/** What several lessons' tasks do. */
import type { SessionActions } from '../session/types.ts';

/** The shipped conversation's next three turns. */
export async function askThreeTimes(actions: SessionActions): Promise<void> {
  for (let i = 0; i < 3; i++) await actions.step();
}
