/** Whether P and D fit the memory that there is, as far as that is known: found before any weight is generated or read. */
import { AdapterError } from '../errors.ts';
import { formatBytes } from '../measure/format.ts';
import { type Architecture, kvBlockBytes } from '../model/types.ts';
import { weightSizes } from '../model/weight-sizes.ts';
import type { ClusterOptions } from './types.ts';

type Sizes = Pick<ClusterOptions, 'weightDtype' | 'kvDtype' | 'blockSize' | 'prefill' | 'decode'>;

/**
 * Bytes of both engines at least: what computing takes beside comes on top. `onTheWay`: while it is loaded, a matrix lies in
 * each engine's own memory too.
 */
export function leastMemory(options: Sizes, architecture: Architecture) {
  const { weightDtype, kvDtype, blockSize, prefill, decode } = options;
  const { total, largest } = weightSizes(architecture, weightDtype);
  const blockBytes = kvBlockBytes(architecture, blockSize, kvDtype);
  const parts = {
    weights: 2 * total,
    kv: (prefill.numBlocks + decode.numBlocks) * blockBytes,
    onTheWay: 2 * largest.bytes,
  };
  return { ...parts, total: parts.weights + parts.kv + parts.onTheWay };
}

/** `free`: bytes that engines can take; null: not known, and nothing is checked. Throws AdapterError. */
export function checkMemory(options: Sizes, architecture: Architecture, free: number | null): void {
  if (free === null) return;
  const { weights, kv, total } = leastMemory(options, architecture);
  if (total <= free) return;
  const smaller = options.weightDtype === 'f32' ? '--weight-dtype f16, ' : '';
  throw new AdapterError(
    `${architecture.name} does not fit: P and D need ${formatBytes(total)} at least (weights ${formatBytes(weights)} as ` +
      `${options.weightDtype}, KV ${formatBytes(kv)}), and ${formatBytes(free)} of this machine's memory are free, which a ` +
      `software adapter computes in; nothing was loaded: use a smaller model, ${smaller}fewer KV blocks (--p-blocks, ` +
      '--d-blocks), or end other programs',
  );
}
