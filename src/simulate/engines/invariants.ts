/** Invariants of simulated engines: of the real policies inside, and of the simulation itself. */
import { InternalError, invariant } from '../../errors.ts';
import type { SimulatedEngine } from './engine.ts';

/** Call when everything of a moment has happened. Throws InternalError. */
export function checkEngines(engines: Iterable<SimulatedEngine>): void {
  for (const { engineId, core, ended, busy } of engines) {
    if (ended) continue;
    core.inspect.checkIntegrity();
    const { freeBlocks, usedBlocks, numBlocks } = core.inspect.stats();
    invariant(
      freeBlocks + usedBlocks === numBlocks - 1,
      () => `${engineId}: ${freeBlocks} free and ${usedBlocks} used blocks are not ${numBlocks - 1}`,
    );
    invariant(busy || !core.poll(), () => `${engineId} is idle, but a step would do something`);
  }
}

/**
 * Call when no event is left though work is not over. Throws InternalError that says which engines have requests, and
 * what these wait for.
 */
export function onStuck(engines: readonly SimulatedEngine[], nowMs: number): never {
  checkEngines(engines);
  const waiting = engines.flatMap(({ engineId, load, core }) => {
    if (load.inFlight === 0) return [];
    const { running, waiting, waitingForRemote } = core.inspect.load();
    return [
      `${engineId} has ${load.inFlight} requests: ${running} run, ${waiting} wait, ${waitingForRemote} wait for KV`,
    ];
  });
  throw new InternalError(
    `the simulation is stuck at ${nowMs} ms, with no event left: ${waiting.join('; ') || 'no engine has a request'}`,
  );
}
