/** What is asked of a thread for whoever only looks, in bounded time: one that is stuck answers nobody. */
import type { Clock } from '../engine/types.ts';
import type { InspectionApi } from '../host/engine-api.ts';
import type { EngineStats } from '../host/engine-report.ts';
import { inTime } from '../transport/deadlines.ts';

/** Many times what an engine takes that computes. */
export const ANSWER_MS = 1000;

/** Those that did not answer in time, and have not yet: they are asked no more, however often somebody looks. */
const silent = new WeakSet<object>();

/** undefined: `who` does not answer. Rejects as the question does. */
export async function askInTime<T>(
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

/** null: it has ended, or does not answer. */
export async function statsInTime(
  engine: { inspection: Pick<InspectionApi, 'stats'> },
  clock: Pick<Clock, 'sleep'>,
): Promise<EngineStats | null> {
  const asked = askInTime(engine, () => engine.inspection.stats(), clock);
  return (await asked.catch(() => null)) ?? null;
}
