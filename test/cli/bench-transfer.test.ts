import { describe, expect, it } from 'vitest';
import { blocksOf } from '../../src/cli/bench/transfer/blocks.ts';
import { delayMs, slowDown, stepsAround } from '../../src/cli/bench/transfer/decode.ts';
import { slowestStage } from '../../src/cli/bench/transfer/stages.ts';
import type { CopyRate } from '../../src/lab/copy-rates.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';

it.each([
  ['tiny', 6],
  // Five windowed layers and a full one, each in a group of its own.
  ['tiny-hybrid', 1],
])('moves as much of %s as it says, in blocks of %i layers', (model, layers) => {
  const architecture = presetArchitecture(model);
  const { blockBytes, count } = blocksOf(architecture, { blockSize: 16, kvDtype: 'f16' }, 16 * 2 ** 20);
  const { numKvHeads, headDim } = architecture;
  // Keys and values, two bytes each.
  expect(blockBytes).toBe(16 * layers * 2 * numKvHeads * headDim * 2);
  expect(count).toBe(Math.ceil((16 * 2 ** 20) / blockBytes));
});

describe('the cost of a pull to decode', () => {
  it('compares steps that overlap the pull with the others', () => {
    // Steps of 10, 10, 14, 12, 10 ms; the pull lies within the third and fourth.
    const steps = stepsAround([0, 10, 20, 34, 46, 56], 25, 40);
    expect(steps).toEqual({ overlappingMs: [14, 12], quietMs: [10, 10, 10] });
    expect(delayMs({ pullMs: 15, ...steps })).toBe(6);
    expect(slowDown({ pullMs: 15, ...steps })).toBeCloseTo(0.3);
  });

  it('counts no step that only touches the pull', () => {
    expect(stepsAround([0, 10, 20, 30], 10, 20)).toEqual({ overlappingMs: [10], quietMs: [10, 10] });
  });
});

describe('the slowest stage', () => {
  const copy = (deviceMs: number, slabMs: number) => [{ startMs: 0, endMs: 20, deviceMs, slabMs }];
  const rate: CopyRate = {
    from: 'decode-0',
    to: 'prefill-0',
    bytes: 1e6,
    chunkBytes: 1e6,
    descriptors: 1,
    pipelinedMs: [10],
    byHandMs: [13],
    alone: { out: copy(4, 2), in: copy(2, 5) },
    concurrent: { out: copy(7, 2), in: copy(3, 5) },
  };

  it("is one engine's part while the other's runs too, if both share the cores", () => {
    expect(slowestStage(rate, true)).toEqual({ name: 'out beside', ms: 9 });
  });

  it('is a single copy that runs alone, if there is a GPU', () => {
    expect(slowestStage(rate, false)).toEqual({ name: 'slab→map', ms: 5 });
  });
});
