/** A model with f16 products against the oracle, with activations too large or too small for f16. */
import { afterEach, beforeAll, expect, it } from 'vitest';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { Oracle } from '../../src/model/oracle/oracle.ts';
import type { Architecture, ModelWeights } from '../../src/model/types.ts';
import { SeededWeights } from '../../src/model/weights/seeded-weights.ts';
import { hasF16 } from '../gpu/adapter.ts';
import { createHarness, type Harness, maxDifference, request, tokens } from './runner-harness.ts';

let h: Harness | null = null;
afterEach(() => h?.close());

let f16: boolean;
beforeAll(async () => {
  f16 = await hasF16();
});

/** Gemma 3's layer: a norm after each part rescales values that were too large or too small before it. */
const gemma: Architecture = {
  ...presetArchitecture('nano'),
  numLayers: 2,
  qkNorm: true,
  outputNorms: true,
  activation: 'gelu',
};

/** Weights whose activations are `factor` times as large, and whose gate-up products `factor` squared times. */
function scaled(weights: ModelWeights, factor: number): ModelWeights {
  const larger = (norm: Float32Array) => norm.map((value) => value * factor);
  return {
    architecture: weights.architecture,
    dtype: weights.dtype,
    embedding: (...asked) => weights.embedding(...asked),
    lmHead: (...asked) => weights.lmHead(...asked),
    finalNorm: () => weights.finalNorm(),
    layer: async (...asked) => {
      const layer = await weights.layer(...asked);
      return { ...layer, inputNorm: larger(layer.inputNorm), mlpNorm: larger(layer.mlpNorm) };
    },
  };
}

/**
 * Four products per layer and one for the logits each have a random error of about 2^-11 of their result; five times
 * that is allowed, for logits of about 1.
 */
const TOLERANCE = 5 * Math.sqrt(4 * gemma.numLayers + 1) * 2 ** -11;

it.for([1, 1e5, 1e-4])(
  'f16 products give the logits of the oracle within the bound with activations %d times as large',
  async (factor, { skip }) => {
    if (!f16) skip('this adapter has no shader-f16');
    const weights = scaled(new SeededWeights(gemma, 7, 'f16'), factor);
    h = await createHarness(weights, { arithmetic: 'f16', kvDtype: 'f32' });
    const ids = tokens(40, gemma.vocabSize);
    const oracle = await Oracle.load(weights, { kvDtype: 'f32' });
    const blocks = [9, 3, 4];
    for (const [start, end] of [
      [0, 39],
      [39, 40],
    ] as const) {
      const [sampled] = await h.runner.execute({
        step: start,
        requests: [request('a', ids, start, end, blocks)],
      });
      const expected = oracle.forward(ids.slice(start, end))[0]!;
      const difference = maxDifference(sampled!.logits!, expected);
      expect(difference).toBeLessThan(TOLERANCE * Math.max(...expected.map(Math.abs)));
      expect(difference).toBeGreaterThan(0);
    }
  },
);
