/** Compares a prompt's KV on the device with the float64 oracle's. For a large model, only as many layers as take seconds. */
import type { RunConfig } from '../../config/run.ts';
import { loadWeights } from '../../model/load.ts';
import { loadOracleWeights, Oracle } from '../../model/oracle/oracle.ts';
import type { Architecture, ModelWeights, WeightDtype } from '../../model/types.ts';
import type { Platform } from '../../platform/types.ts';
import { largestError } from './kernel-cases.ts';
import { type HeldSequence, headValues, type KvLayout } from './kv-layout.ts';

export interface KvOracle {
  /** Which layers are compared, in words. */
  layers: string;
  /** The largest |difference| / max(1, |value|) so far; infinite for NaN. */
  readonly worst: number;
  /** The largest absolute key or value so far. */
  readonly largest: number;
  /** Computes the prompt and compares every position that has KV. */
  compare(layout: KvLayout, promptTokenIds: readonly number[], held: HeldSequence): void;
}

/** Multiply-adds in float64 that take some seconds on one core. */
const MULTIPLY_ADDS = 5e9;

/** `tokens`: how many will be compared in total. */
export async function oracleFor(
  platform: Platform,
  config: RunConfig,
  kvDtype: WeightDtype,
  tokens: number,
): Promise<KvOracle> {
  const weights = await loadWeights({
    name: config.model,
    files: await platform.openModel(config.model),
    dtype: config.weightDtype,
    seed: config.seed,
  });
  const all = weights.architecture.numLayers;
  const affordable = Math.floor(MULTIPLY_ADDS / (tokens * layerWork(weights.architecture)));
  const numLayers = Math.min(all, Math.max(1, affordable));
  const oracleWeights = await loadOracleWeights(firstLayers(weights, numLayers));
  let [worst, largest] = [0, 0];
  return {
    layers: numLayers === all ? `all ${all} layers` : `the first ${numLayers} of ${all} layers`,
    get worst() {
      return worst;
    },
    get largest() {
      return largest;
    },
    compare(layout, promptTokenIds, { blocks, from }) {
      const oracle = new Oracle(oracleWeights, { kvDtype });
      oracle.forward(promptTokenIds, { logits: 'none' });
      for (let layer = 0; layer < numLayers; layer++) {
        for (const [plane, heads] of [
          ['key', oracle.keys(layer)],
          ['value', oracle.values(layer)],
        ] as const) {
          heads.forEach((expected, head) => {
            const place = { layer, plane, head };
            const found = headValues(layout, blocks, place, promptTokenIds.length);
            const skipped = from[layer]! * layout.headDim;
            worst = Math.max(worst, largestError(found.subarray(skipped), expected.subarray(skipped)));
            for (const value of expected) largest = Math.max(largest, Math.abs(value));
          });
        }
      }
    },
  };
}

/** Multiply-adds of one token in one layer's matrices. */
function layerWork({ hiddenSize, numHeads, numKvHeads, headDim, intermediateSize }: Architecture): number {
  return hiddenSize * ((2 * numHeads + 2 * numKvHeads) * headDim + 3 * intermediateSize);
}

/** The model's first layers: K and V of a layer do not depend on later layers. */
function firstLayers(weights: ModelWeights, numLayers: number): ModelWeights {
  return {
    architecture: { ...weights.architecture, numLayers },
    dtype: weights.dtype,
    embedding: () => weights.embedding(),
    // Logits are not computed.
    lmHead: async () => null,
    finalNorm: () => weights.finalNorm(),
    layer: (index) => weights.layer(index),
  };
}
