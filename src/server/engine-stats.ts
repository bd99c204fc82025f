/** An engine's state for whoever looks, in bounded time: a thread that is stuck answers nobody. */
import type { InspectionApi } from '../host/engine-api.ts';
import type { EngineStats } from '../host/engine-report.ts';
import { inTime } from './in-time.ts';

/** Many times what an engine takes that computes. */
const ANSWER_MS = 1000;

/** Asked, and not answered yet: of one that is stuck no more is asked, however often somebody looks. */
const asked = new WeakMap<object, Promise<EngineStats | null>>();

/** null: it has ended, or does not answer. */
export function statsInTime(engine: {
  inspection: Pick<InspectionApi, 'stats'>;
}): Promise<EngineStats | null> {
  let answer = asked.get(engine);
  if (!answer) {
    answer = engine.inspection
      .stats()
      .catch(() => null)
      .finally(() => asked.delete(engine));
    asked.set(engine, answer);
  }
  return inTime(answer, ANSWER_MS);
}
