/** Fusing kernels for few rows gives the same logits and KV as separate kernels, with fewer dispatches. */
import { afterEach, beforeAll, expect, it } from 'vitest';
import type { Arithmetic } from '../../src/config/arithmetic.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { choiceOf, type GemmChoice, type GemmForm } from '../../src/model/kernels/gemm-forms.ts';
import type { Architecture } from '../../src/model/types.ts';
import { SeededWeights } from '../../src/model/weights/seeded-weights.ts';
import { hasF16 } from '../gpu/adapter.ts';
import { createHarness, type Harness, request, tokens } from './runner-harness.ts';

let h: Harness;
afterEach(() => h.close());

const nano: Architecture = { ...presetArchitecture('nano'), numLayers: 2 };
const portable: GemmChoice = choiceOf<GemmForm>((rows) =>
  rows === '1' || rows === '4' ? `gemmPortable ${rows}` : 'gemmTiled 32',
);
const window = { kind: 'sliding', window: 20 } as const;
const families: readonly [string, Architecture, { fused: number; apart: number }][] = [
  ['Llama', nano, { fused: 5, apart: 9 }],
  ['Qwen2, biases', { ...nano, qkvBias: true, oBias: true, mlpBias: true }, { fused: 5, apart: 9 }],
  ['Mistral, a window', { ...nano, attention: [window] }, { fused: 5, apart: 9 }],
  ['Qwen3, QK norm', { ...nano, qkNorm: true }, { fused: 6, apart: 9 }],
  [
    'Gemma 3, output norms, QK norm and gelu',
    {
      ...nano,
      qkNorm: true,
      outputNorms: true,
      activation: 'gelu',
      attention: [window, { kind: 'full' }],
      slidingRope: { ropeTheta: 1000, ropeScaling: null },
    },
    { fused: 8, apart: 11 },
  ],
  [
    'widths that fill no panel',
    { ...nano, hiddenSize: 54, numHeads: 3, numKvHeads: 1, headDim: 24, intermediateSize: 87 },
    { fused: 7, apart: 9 },
  ],
];

let f16: boolean;
beforeAll(async () => {
  f16 = await hasF16();
});

it.for(
  families.flatMap(([name, architecture, dispatches]) =>
    [
      ['as the adapter takes them', 'f32', null],
      ['portable', 'f32', portable],
      ['as the adapter takes them', 'f16', null],
    ].map(
      ([forms, arithmetic, gemm]) =>
        [name, forms, arithmetic as Arithmetic, architecture, gemm as GemmChoice | null, dispatches] as const,
    ),
  ),
)(
  'fused kernels give the same logits and KV with fewer dispatches: %s, forms %s, in %s',
  async ([, , arithmetic, architecture, gemm, dispatches], { skip }) => {
    if (arithmetic === 'f16' && !f16) skip('this adapter has no shader-f16');
    const weights = new SeededWeights(architecture, 5, 'f16');
    const ids = [1, 2, 3].map((seed) => tokens(30, architecture.vocabSize, seed));
    const lived = [];
    for (const fuse of [true, false]) {
      h = await createHarness(weights, {
        arithmetic,
        gemm,
        fuse,
        numBlocks: 12,
        maxNumBatchedTokens: 64,
        maxModelLen: 64,
      });
      const digests: string[] = [];
      const run = async (start: number, end: number, which: readonly number[]) => {
        const requests = which.map((i) =>
          request(`${i}`, ids[i]!, start, end, [1 + 3 * i, 2 + 3 * i, 3 + 3 * i]),
        );
        digests.push(...(await h.runner.execute({ step: start, requests })).map((each) => each.logitsDigest));
      };
      // A few rows alone, then many, then one and three sequences token by token.
      await run(0, 3, [0]);
      await run(3, 24, [0]);
      await run(0, 24, [1, 2]);
      const timed = h.runner.setTiming('kernels');
      await run(24, 25, [0]);
      const calls = h.runner.takeKernelTimes().totals.filter(({ layer }) => layer !== null);
      h.runner.setTiming(null);
      await run(24, 25, [1, 2]);
      await run(25, 26, [0, 1, 2]);
      await run(26, 27, [0, 1, 2]);
      const kv = await Promise.all([1, 2, 4, 5, 7, 8].map((id) => h.kv.readBlock(id)));
      lived.push({ digests, kv });
      expect(h.runner.firstUseCompilations()).toBe(0);
      if (timed)
        expect(calls.reduce((sum, each) => sum + each.calls, 0)).toBe(
          architecture.numLayers * (fuse ? dispatches.fused : dispatches.apart),
        );
      if (fuse) h.close();
    }
    expect(lived[0]!.digests).toEqual(lived[1]!.digests);
    expect(lived[0]!.kv).toEqual(lived[1]!.kv);
  },
);
