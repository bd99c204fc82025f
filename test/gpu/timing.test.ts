import { describe, expect, it } from 'vitest';
import { repeatsFor } from '../../src/gpu/timing.ts';

describe('the number of repeats in one submit', () => {
  it('is so large that a small kernel takes most of the time, not the submit', async () => {
    const [submitMs, kernelMs] = [0.2, 0.005];
    const repeats = await repeatsFor(2, async (many) => submitMs + many * kernelMs);
    expect((repeats * kernelMs) / (submitMs + repeats * kernelMs)).toBeGreaterThan(0.9);
  });

  it('is one for a long kernel, and bounded for one that takes no time', async () => {
    expect(await repeatsFor(2, async (many) => 3 * many)).toBe(1);
    expect(await repeatsFor(2, async () => 0)).toBe(4096);
  });
});
