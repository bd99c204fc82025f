import { describe, expect, it } from 'vitest';
import { DEFAULT_SAMPLING } from '../../src/engine/sampling.ts';
import type { SamplingParams } from '../../src/engine/types.ts';
import { sampleOnHost } from '../../src/model/pass/sample-on-host.ts';
import { FORBIDDEN_PER_ROW, isOnHost, packSamples } from '../../src/model/pass/sampling.ts';

const sampleOf = (
  params: Partial<SamplingParams>,
  forbiddenTokenIds: readonly number[] = [],
  outputIndex = 0,
) => ({
  params: { ...DEFAULT_SAMPLING, ...params },
  outputIndex,
  forbiddenTokenIds,
});

const logits = Float32Array.of(1, 5, 5, 4, 3, Number.NaN);

describe('rows sampled on the host', () => {
  it("are those with allowed tokens or too many forbidden ones, and take no room in the kernel's list", () => {
    const many = Array.from({ length: FORBIDDEN_PER_ROW + 1 }, (_, id) => id);
    const onHost = [sampleOf({ allowedTokenIds: [3] }, [1]), sampleOf({}, many)];
    const onDevice = sampleOf({}, many.slice(1));
    expect([...onHost, onDevice].map(isOnHost)).toEqual([true, true, false]);
    const { rows, forbidden } = packSamples([...onHost, onDevice]);
    expect([...forbidden]).toEqual(many.slice(1));
    const words = new Uint32Array(rows);
    expect([0, 1, 2].map((row) => words[8 * row + 5])).toEqual([0, 0, FORBIDDEN_PER_ROW]);
  });

  it('get the largest logit among allowed tokens that are not forbidden, the lowest id on ties', () => {
    expect(sampleOnHost(logits, sampleOf({}))).toBe(1);
    expect(sampleOnHost(logits, sampleOf({}, [1]))).toBe(2);
    expect(sampleOnHost(logits, sampleOf({ allowedTokenIds: [0, 4, 3, 4] }))).toBe(3);
    expect(sampleOnHost(logits, sampleOf({ allowedTokenIds: [0, 4, 3] }, [3]))).toBe(4);
    expect(sampleOnHost(logits, sampleOf({ allowedTokenIds: [0, 4, 3], temperature: 1, topK: 1 }))).toBe(3);
  });

  it('get an allowed token if all of them are forbidden, and none if their logits are NaN', () => {
    expect(sampleOnHost(logits, sampleOf({ allowedTokenIds: [4] }, [4]))).toBe(4);
    expect(sampleOnHost(logits, sampleOf({ allowedTokenIds: [5] }))).toBeNull();
  });

  it('draw by weight among the allowed tokens only', () => {
    const drawn = Array.from({ length: 2000 }, (_, i) =>
      sampleOnHost(logits, sampleOf({ allowedTokenIds: [3, 4], temperature: 1, seed: 3 }, [], i)),
    );
    const share = drawn.filter((id) => id === 3).length / drawn.length;
    expect(new Set(drawn)).toEqual(new Set([3, 4]));
    expect(share).toBeCloseTo(Math.E / (Math.E + 1), 1);
  });
});
