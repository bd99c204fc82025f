/** Checks of a run that is over. */
import { InternalError, invariant } from '../../errors.ts';
import type { SimulatedCluster } from '../cluster.ts';
import { checkEngines } from '../engines/invariants.ts';
import type { Collector } from './collector.ts';
import type { RunOutcome } from './outcome.ts';

/**
 * Checks that every request ended, with its first token no later than its last, and that every READ ended. Throws
 * InternalError.
 */
export async function checkRun(cluster: SimulatedCluster, collector: Collector): Promise<void> {
  const { arrived, count, failed, open } = collector;
  invariant(
    open === 0,
    () => `${arrived} requests arrived, ${count} succeeded, ${failed} failed: ${open} are missing`,
  );
  const starts = collector.column('startMs');
  const ttfts = collector.column('ttftMs');
  const latencies = collector.column('latencyMs');
  for (let i = 0; i < count; i++)
    invariant(
      starts[i]! >= 0 && ttfts[i]! >= 0 && latencies[i]! >= ttfts[i]!,
      () =>
        `a request arrived at ${starts[i]} ms, had its first token after ${ttfts[i]} and its last after ${latencies[i]}`,
    );
  const { counts } = cluster.net;
  await cluster.until(() => counts.started === counts.ended);
  invariant(counts.started === counts.ended, () => `${counts.started} READs began, ${counts.ended} ended`);
  checkEngines(cluster.engines);
  cluster.store?.checkIntegrity();
}

/** Checks that two simulations with the same seed are equal. Throws InternalError. */
export function checkSame(one: RunOutcome, other: RunOutcome, seed: number): void {
  const differing = (Object.keys(one) as (keyof RunOutcome)[]).find(
    (key) => bytesOf(one[key]) !== bytesOf(other[key]),
  );
  if (differing) throw new InternalError(`seed ${seed} gave different ${differing} when simulated again`);
}

const bytesOf = (value: unknown): string =>
  JSON.stringify(value, (_, each: unknown) => (each instanceof Float64Array ? [...each] : each));
