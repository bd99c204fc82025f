/** Checks whether a fleet fits into memory, as far as that is known, before any weights are generated or read. */
import { AdapterError } from '../errors.ts';
import { formatBytes, plural } from '../measure/format.ts';
import { kvGroups, kvPageBytes } from '../model/architecture/kv-groups.ts';
import type { Architecture } from '../model/types.ts';
import { abandon, sharedBytes } from '../model/weights/shared-weights.ts';
import { weightSizes } from '../model/weights/weight-sizes.ts';
import { sumOf } from '../sum.ts';
import { countEngines, poolOf, seatsOf } from './options.ts';
import { plainFleet, type Seat } from './seats.ts';
import type { ClusterOptions } from './types.ts';

type Sizes = Pick<
  ClusterOptions,
  'weightDtype' | 'kvDtype' | 'blockSize' | 'prefill' | 'decode' | 'fleet' | 'store'
>;

/**
 * Lower bound of the memory of all engines and the store in bytes, without what computing takes. `onTheWay`: while a
 * matrix is loaded, each engine has it in its own memory too.
 */
export function leastMemory(options: Sizes, architecture: Architecture) {
  const { weightDtype, kvDtype, blockSize, store } = options;
  const seats = seatsOf(options);
  const blocks = sumOf(seats, (seat) => poolOf(options, seat).numBlocks);
  const { total, largest } = weightSizes(architecture, weightDtype);
  const blockBytes = kvPageBytes(kvGroups(architecture), architecture, blockSize, kvDtype);
  const parts = {
    weights: seats.length * total,
    kv: blocks * blockBytes,
    onTheWay: seats.length * largest.bytes,
    store: store?.bytes ?? 0,
  };
  return { ...parts, total: parts.weights + parts.kv + parts.onTheWay + parts.store };
}

/** `free`: bytes available to engines; null: unknown, and nothing is checked. Throws AdapterError. */
export function checkMemory(options: Sizes, architecture: Architecture, free: number | null): void {
  if (free === null) return;
  const { weights, kv, store, total } = leastMemory(options, architecture);
  if (total <= free) return;
  const [andStore, lessStore] =
    store > 0 ? [`, the store ${formatBytes(store)}`, 'a smaller --store, '] : ['', ''];
  const fewer = seatsOf(options).length > 2 ? 'fewer engines (--prefill, --decode), ' : '';
  const smaller = options.weightDtype === 'f32' ? '--weight-dtype f16, ' : '';
  throw new AdapterError(
    `${architecture.name} does not fit: ${countEngines(options)} need at least ${formatBytes(total)} (weights ${formatBytes(weights)} as ` +
      `${options.weightDtype}, KV ${formatBytes(kv)}${andStore}), but ${formatBytes(free)} of this machine's memory is free, which is where a ` +
      `software adapter computes; nothing was loaded: use ${fewer}a smaller model, ${smaller}${lessStore}fewer KV blocks (--p-blocks, ` +
      '--d-blocks), or end other programs',
  );
}

/** Checks that more engines fit in addition to the running ones, for which nothing is freed. Throws AdapterError. */
export function checkRoom(
  options: Sizes,
  more: readonly Seat[],
  architecture: Architecture,
  free: number | null,
): void {
  if (free === null) return;
  const count = (role: Seat['role']): number => more.filter((seat) => seat.role === role).length;
  const counts = { prefill: count('prefill'), decode: count('decode') };
  const fleet = { ...plainFleet(counts), seats: more };
  const { total } = leastMemory({ ...options, fleet, store: null }, architecture);
  if (total <= free) return;
  const what = [`${counts.prefill} more P`, `${counts.decode} more D`].filter(
    (words) => !words.startsWith('0'),
  );
  throw new AdapterError(
    `${what.join(' and ')} of ${architecture.name} do not fit: they need at least ${formatBytes(total)}, but ` +
      `${formatBytes(free)} of this machine's memory is free; nothing was changed: ask for fewer`,
  );
}

/**
 * Upper estimate of the memory mappings per engine on a software adapter: thread stacks, buffers, compiled kernels.
 * Measured: 530 each with 120 engines on lavapipe and two processors, where the process ended on reaching the
 * kernel's limit.
 */
const MAPPINGS_EACH = 600;

/**
 * `engines`: number to be started. `free`: mappings that the process may still add; null: unknown, and nothing is
 * checked. Throws AdapterError.
 */
export function checkMappings(engines: number, free: number | null): void {
  if (free === null) return;
  const most = Math.max(0, Math.floor(free / MAPPINGS_EACH));
  if (engines <= most) return;
  throw new AdapterError(
    `${plural(engines, 'engine')} do not fit into one process: each needs about ${MAPPINGS_EACH} memory mappings, and this process may add ` +
      `${free}, beyond which it would crash without an error; nothing was changed: ask for ${most} or fewer, or raise the ` +
      'limit (sysctl vm.max_map_count)',
  );
}

/** Memory in which engines that start together generate their weights, once for all. */
export interface SharedMemory {
  memory: SharedArrayBuffer;
  /** Call when one of the engines is gone, so that none waits for its part of the work. */
  abandon(): void;
}

/** null: there is only one engine, or no room for a copy in addition to the engines' own. */
export function sharedMemory(
  options: Sizes,
  architecture: Architecture,
  free: number | null,
): SharedMemory | null {
  const bytes = sharedBytes(architecture, options.weightDtype);
  if (bytes === null || seatsOf(options).length < 2) return null;
  if (free !== null && leastMemory(options, architecture).total + bytes > free) return null;
  const memory = new SharedArrayBuffer(bytes);
  return { memory, abandon: () => abandon(memory, architecture) };
}
