/** Asks a thread for read-only information within a time limit, since a stuck thread never answers. */
import type { Clock } from '../engine/types.ts';
import type { InspectionApi } from '../host/engine-api.ts';
import type { EngineStats } from '../host/engine-report.ts';
import { inTime } from '../transport/deadlines.ts';

/** Milliseconds. Many times what a busy engine takes. */
export const ANSWER_MS = 1000;

/** Threads that did not answer in time and still have not. They are not asked again until they answer. */
const silent = new WeakSet<object>();

/** undefined: `who` does not answer within `ms` milliseconds. Rejects if the question does. */
export async function callWithTimeout<T>(
  who: object,
  question: () => Promise<T>,
  clock: Pick<Clock, 'sleep'>,
  ms = ANSWER_MS,
): Promise<T | undefined> {
  if (silent.has(who)) return undefined;
  const answer = question();
  return inTime(answer, ms, clock, () => {
    silent.add(who);
    const heard = () => silent.delete(who);
    answer.then(heard, heard);
    return undefined;
  });
}

/** null: the engine has ended or does not answer. */
export async function statsWithTimeout(
  engine: { inspection: Pick<InspectionApi, 'stats'> },
  clock: Pick<Clock, 'sleep'>,
): Promise<EngineStats | null> {
  const stats = callWithTimeout(engine, () => engine.inspection.stats(), clock);
  return (await stats.catch(() => null)) ?? null;
}
