/** Measures a store's costs: loads and saves by bytes, and reads from its folder into memory. */

import type { CostProfile } from '../config/cost-profile.ts';
import { cacheGroups } from '../engine/kv-cache-spec.ts';
import { InternalError } from '../errors.ts';
import type { Cluster } from '../fleet/types.ts';
import { fitNonNegative } from '../measure/least-squares.ts';
import { median } from '../measure/statistics.ts';
import type { TurnResult } from '../router/turn-types.ts';
import { seededGenerator } from '../seeded.ts';
import { pathChoice } from './multiturn/paths.ts';
import { drawTokens, firstToken } from './sweep.ts';

export type StoreCosts = NonNullable<CostProfile['store']>;

export interface StoreCostOptions {
  rounds: number;
  /** Prompt lengths, tokens. */
  contexts: readonly number[];
  seed: number;
  signal?: AbortSignal;
}

/** Bytes and milliseconds. */
type Sample = readonly [bytes: number, ms: number];

/** Prompts of at least this many lengths separate the cost per token or byte from the fixed cost. */
export const LEAST_LENGTHS = 2;

/**
 * Needs a cluster with a store. Restores mode and connectors, and leaves the caches empty. null: the store has no room for two
 * of the prompts.
 */
export async function measureStoreCosts(
  cluster: Cluster,
  options: StoreCostOptions,
): Promise<StoreCosts | null> {
  const { mode, prefill, connector, store } = cluster.settings;
  const { slots } = (await cluster.storeStats())!;
  const contexts = fittingContexts(options.contexts, slots, cluster.settings);
  if (contexts.length < LEAST_LENGTHS) return null;
  const samples = { load: [] as Sample[], save: [] as Sample[], raise: [] as Sample[] };
  const stop = cluster.onSpan(({ name, startMs, endMs, args }) => {
    if (name === 'save') samples.save.push([Number(args.bytes), endMs - startMs]);
    if (name === 'store lookup' && args.raised)
      samples.raise.push([Number(args.raisedBytes), Number(args.raisedMs)]);
  });
  const { connector: throughStore } = pathChoice('pd-reuse', { offloadPromptOnly: true });
  const empty = () =>
    cluster.configure({ mode: 'unidirectional', connector: throughStore, prefixCaching: false });
  const ids = drawTokens(cluster, seededGenerator(options.seed));
  try {
    await empty();
    const prompts = contexts.map((tokens) => ids(tokens));
    // Round -2 saves, round -1 warms up loads; neither is counted.
    for (let round = -2; round < options.rounds; round++) {
      for (const prompt of prompts) {
        const { transfer } = await serve(cluster, prompt, options.signal);
        if (round >= 0 && transfer.storeToP)
          samples.load.push([transfer.storeToP.bytes, transfer.storeToP.ms]);
      }
    }
    for (let round = 0; store?.folder && round < options.rounds; round++) {
      // This empties the store's memory, but not its folder.
      await empty();
      for (const prompt of prompts) await serve(cluster, prompt, options.signal);
    }
  } finally {
    stop();
    const { name, offloading, multi } = connector;
    const before = { name, ...(offloading && { offloading }), ...(multi && { multi }) };
    await cluster.configure({ mode, connector: before, prefixCaching: prefill.enablePrefixCaching });
  }
  const [load, save] = [fitted(samples.load), fitted(samples.save)];
  if (!load || !save)
    throw new InternalError(
      `measuring the store gave ${samples.load.length} loads and ${samples.save.length} saves: wanted some of each`,
    );
  return { load, save, folder_read: fitted(samples.raise) };
}

/** The shortest contexts, as many as the store can hold at once. */
function fittingContexts(
  contexts: readonly number[],
  slots: number,
  settings: Cluster['settings'],
): number[] {
  let taken = 0;
  return [...contexts]
    .sort((a, b) => a - b)
    .filter((tokens) => {
      taken += cacheGroups(settings).length * Math.ceil(tokens / settings.blockSize);
      return taken <= slots;
    });
}

/** Fits the median of each size, so that a delay on a busy machine does not count as a tier's cost. null: no samples. */
function fitted(samples: readonly Sample[]): StoreCosts['load'] | null {
  if (samples.length === 0) return null;
  const sizes = [...new Set(samples.map(([bytes]) => bytes))];
  const times = sizes.map((size) => samples.filter(([bytes]) => bytes === size).map(([, ms]) => ms));
  const { coefficients } = fitNonNegative(
    // With one size (steps of one block save that), the fixed cost cannot be separated from the cost per byte.
    sizes.map((bytes) => (sizes.length === 1 ? [bytes] : [bytes, 1])),
    times.map((ms) => Math.max(1e-3, median(ms))),
  );
  const [perByte, fixed = 0] = coefficients as [number, number?];
  return { fixed_ms: fixed, ms_per_byte: perByte, samples: samples.length };
}

let served = 0;

async function serve(
  cluster: Cluster,
  promptTokenIds: readonly number[],
  signal?: AbortSignal,
): Promise<TurnResult> {
  const conversationId = `store-costs-${++served}`;
  const turn = await firstToken(cluster, conversationId, promptTokenIds, null, signal);
  await cluster.endConversation(conversationId);
  return turn;
}
