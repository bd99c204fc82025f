/** How the sizes of pieces and submits follow the speed of the device, simulated by a faster or slower clock. */
import { expect, it } from 'vitest';
import type { RawSpan } from '../../src/measure/spans/spans.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import type { GemmChoice } from '../../src/model/kernels/gemm-forms.ts';
import { SeededWeights } from '../../src/model/weights/seeded-weights.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { createHarness, request, tokens } from './runner-harness.ts';

const clockOf = (speed: number) => ({ ...systemClock, now: () => systemClock.now() * speed });
const nano = { ...presetArchitecture('nano'), numLayers: 2 };
/** A model whose matrices need more than a million multiply-adds per row. */
const wide = {
  ...nano,
  ...{ name: 'wide', hiddenSize: 8 * nano.hiddenSize, intermediateSize: 8 * nano.intermediateSize },
  ...{ numHeads: 8 * nano.numHeads, numKvHeads: 8 * nano.numKvHeads },
};
const portable: GemmChoice = {
  ...{ 1: 'gemmPortable 1', 4: 'gemmPortable 4', 16: 'gemmPortable 8', more: 'gemmPortable 8' },
};

/** Computes the prompt `steps` times; returns the pieces of each step. */
async function piecesOf(
  architecture: typeof nano,
  promptTokens: number,
  { speed, gemm = portable, steps }: { speed: number; gemm?: GemmChoice; steps: number },
): Promise<RawSpan[][]> {
  let pieces: RawSpan[] = [];
  const h = await createHarness(new SeededWeights(architecture, 1, 'f16'), {
    ...{ gemm, clock: clockOf(speed), keepLogits: false },
    onSpan: (span) => {
      if (span.name === 'forward') pieces.push(span);
    },
  });
  const blocks = Array.from({ length: Math.ceil(promptTokens / 16) }, (_, i) => i + 1);
  const ids = tokens(promptTokens, architecture.vocabSize);
  const all: RawSpan[][] = [];
  for (let step = 0; step < steps; step++) {
    pieces = [];
    await h.runner.execute({ step, requests: [request('a', ids, 0, promptTokens, blocks)] });
    all.push(pieces);
  }
  h.close();
  return all;
}

it.each([
  ['one form', portable],
  ['another form for many rows', { ...portable, more: 'gemmTiled 64' as const }],
])('a fast device computes a prompt in one piece from the first step, with %s', async (_, gemm) => {
  const steps = await piecesOf(wide, 256, { speed: 1e-4, gemm, steps: 2 });
  expect(steps.map((pieces) => pieces.map(({ args }) => args?.rows))).toEqual([[256], [256]]);
});

it('a slow device splits even the smallest pieces of a prompt into several submits, so a READ can run between them', async () => {
  const [pieces] = await piecesOf(wide, 48, { speed: 100, steps: 1 });
  for (const { args } of pieces!) {
    expect(args?.rows).toBeLessThanOrEqual(16);
    // On a slow machine pieces shrink to one row, which takes one submit, as in decode.
    if (args?.rows !== 1) expect(args?.submits).toBeGreaterThan(1);
  }
});
