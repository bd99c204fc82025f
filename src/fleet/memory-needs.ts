/** Whether a fleet fits the memory that there is, as far as that is known: found before any weight is generated or read. */
import { AdapterError } from '../errors.ts';
import { formatBytes, plural } from '../measure/format.ts';
import { kvGroups, kvPageBytes } from '../model/kv-groups.ts';
import { abandon, sharedBytes } from '../model/shared-weights.ts';
import type { Architecture } from '../model/types.ts';
import { weightSizes } from '../model/weight-sizes.ts';
import { countEngines, engineSpecs, poolOf } from './options.ts';
import { plainFleet, type Seat } from './seats.ts';
import type { ClusterOptions } from './types.ts';

type Sizes = Pick<ClusterOptions, 'weightDtype' | 'kvDtype' | 'blockSize' | 'prefill' | 'decode' | 'fleet'>;

/**
 * Bytes of all engines at least: what computing takes beside comes on top. `onTheWay`: while it is loaded, a matrix lies in
 * each engine's own memory too.
 */
export function leastMemory(options: Sizes, architecture: Architecture) {
  const { weightDtype, kvDtype, blockSize } = options;
  const specs = engineSpecs(options);
  const blocks = specs.reduce((sum, spec) => sum + poolOf(options, spec).numBlocks, 0);
  const { total, largest } = weightSizes(architecture, weightDtype);
  const blockBytes = kvPageBytes(kvGroups(architecture), architecture, blockSize, kvDtype);
  const parts = {
    weights: specs.length * total,
    kv: blocks * blockBytes,
    onTheWay: specs.length * largest.bytes,
  };
  return { ...parts, total: parts.weights + parts.kv + parts.onTheWay };
}

/** `free`: bytes that engines can take; null: not known, and nothing is checked. Throws AdapterError. */
export function checkMemory(options: Sizes, architecture: Architecture, free: number | null): void {
  if (free === null) return;
  const { weights, kv, total } = leastMemory(options, architecture);
  if (total <= free) return;
  const fewer = engineSpecs(options).length > 2 ? 'fewer engines (--prefill, --decode), ' : '';
  const smaller = options.weightDtype === 'f32' ? '--weight-dtype f16, ' : '';
  throw new AdapterError(
    `${architecture.name} does not fit: ${countEngines(options)} need ${formatBytes(total)} at least (weights ${formatBytes(weights)} as ` +
      `${options.weightDtype}, KV ${formatBytes(kv)}), and ${formatBytes(free)} of this machine's memory are free, which a ` +
      `software adapter computes in; nothing was loaded: use ${fewer}a smaller model, ${smaller}fewer KV blocks (--p-blocks, ` +
      '--d-blocks), or end other programs',
  );
}

/** These more, beside what runs: nothing of it is freed for them. Throws AdapterError. */
export function checkRoom(
  options: Sizes,
  more: readonly Seat[],
  architecture: Architecture,
  free: number | null,
): void {
  if (free === null) return;
  const count = (role: Seat['role']): number => more.filter((seat) => seat.role === role).length;
  const counts = { prefill: count('prefill'), decode: count('decode') };
  const { total } = leastMemory({ ...options, fleet: { ...plainFleet(counts), seats: more } }, architecture);
  if (total <= free) return;
  const what = [`${counts.prefill} more P`, `${counts.decode} more D`].filter(
    (words) => !words.startsWith('0'),
  );
  throw new AdapterError(
    `${what.join(' and ')} of ${architecture.name} do not fit: they need ${formatBytes(total)} at least, and ` +
      `${formatBytes(free)} of this machine's memory are free; nothing was changed: ask for fewer`,
  );
}

/**
 * Stretches of memory that an engine maps on a software adapter, at most: its threads' stacks, buffers, compiled kernels. With 120
 * engines on lavapipe and two processors it was 530 each, and the process ended as it had as many as the kernel allows.
 */
const MAPPINGS_EACH = 600;

/** `engines`: to be started. `free`: how many mappings the process may still have; null: not known. Throws AdapterError. */
export function checkMappings(engines: number, free: number | null): void {
  if (free === null) return;
  const most = Math.max(0, Math.floor(free / MAPPINGS_EACH));
  if (engines <= most) return;
  throw new AdapterError(
    `${plural(engines, 'engine')} do not fit into one process: each maps memory some ${MAPPINGS_EACH} times, and this one may do so ` +
      `${free} times more, beyond which it would end without a word; nothing was changed: ask for ${most} or fewer, or raise the ` +
      'bound (sysctl vm.max_map_count)',
  );
}

/** What engines that start together make their weights in, once for all. */
export interface SharedMemory {
  memory: SharedArrayBuffer;
  /** One of them is gone: nobody waits for what it had in hand. */
  abandon(): void;
}

/** null: for one engine, or where there is no room for a copy beside the engines' own. */
export function sharedMemory(
  options: Sizes,
  architecture: Architecture,
  free: number | null,
): SharedMemory | null {
  const bytes = sharedBytes(architecture, options.weightDtype);
  if (bytes === null || engineSpecs(options).length < 2) return null;
  if (free !== null && leastMemory(options, architecture).total + bytes > free) return null;
  const memory = new SharedArrayBuffer(bytes);
  return { memory, abandon: () => abandon(memory, architecture) };
}
