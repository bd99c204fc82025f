/** What must hold of simulated engines whatever happens: of the real policy under it, and of the simulation itself. */
import { InternalError, invariant } from '../errors.ts';
import type { SimulatedEngine } from './engine.ts';

/** Valid once all that happens at a moment has happened. Throws InternalError. */
export function checkEngines(engines: Iterable<SimulatedEngine>): void {
  for (const { engineId, core, ended, busy } of engines) {
    if (ended) continue;
    core.inspect.checkIntegrity();
    const { freeBlocks, usedBlocks, numBlocks } = core.inspect.stats();
    invariant(
      freeBlocks + usedBlocks === numBlocks - 1,
      () => `${engineId}: ${freeBlocks} free and ${usedBlocks} used blocks are not ${numBlocks - 1}`,
    );
    invariant(busy || !core.poll(), () => `${engineId} stands still, and a step would do something`);
  }
}

/** Nothing is to come, and somebody waits: throws InternalError that says who, and for what. */
export function standsStill(engines: readonly SimulatedEngine[], nowMs: number): never {
  checkEngines(engines);
  const waiting = engines.flatMap(({ engineId, load, core }) => {
    if (load.inFlight === 0) return [];
    const { running, waiting, waitingForRemote } = core.inspect.load();
    return [
      `${engineId} has ${load.inFlight} requests: ${running} run, ${waiting} wait, ${waitingForRemote} wait for KV`,
    ];
  });
  throw new InternalError(
    `the simulation stands still at ${nowMs} ms and nothing is to come: ${waiting.join('; ') || 'no engine has a request'}`,
  );
}
