/** The time that the engines' own copies take for a READ, apart from a modelled link. */
import { STORE_ADDRESS } from '../../config/connectors.ts';
import type { EngineIdentity } from '../../transport/types.ts';
import type { NetDeps } from './net.ts';

export interface CopyWork {
  bytes: number;
  ms: number;
  /** Milliseconds that they take from each step that runs at the same time, on a machine that all engines share. */
  fromStepsMs: number;
}

/**
 * `varies`: factor on the time of a READ between engines. If the costs have no store times, loads and saves take what such a
 * READ takes.
 */
export function copyWork(
  { from, to }: { from: string; to: EngineIdentity },
  { blocks, bytes, promptTokens }: { blocks: number; bytes: number; promptTokens: number },
  varies: number,
  { costs, machine, roleOf }: Pick<NetDeps, 'costs' | 'machine' | 'roleOf'>,
): CopyWork {
  const loads = from === STORE_ADDRESS.engineId;
  const saves = to.engineId === STORE_ADDRESS.engineId;
  if (!loads && !saves) {
    const contentionMs = machine?.computing ? costs.readContentionMs : 0;
    const pulls = roleOf(from) === 'decode' && roleOf(to.engineId) === 'prefill';
    const fromStepsMs = pulls ? costs.pullFromStepsMs : costs.readFromStepsMs;
    return { bytes, ms: varies * costs.readMs(bytes, promptTokens) + contentionMs, fromStepsMs };
  }
  const { blockBytes, blockSize } = to;
  const tokens = (blocks / blockBytes.length) * blockSize;
  const known = costs.store && (loads ? costs.store.loadMs(bytes) : costs.store.saveMs(bytes));
  return { bytes, ms: known ?? costs.readMs(bytes, tokens), fromStepsMs: 0 };
}
