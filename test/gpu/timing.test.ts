import { describe, expect, it } from 'vitest';
import { repeatsFor } from '../../src/gpu/timing.ts';

describe('repeats in one submit', () => {
  it('are so many that a small kernel takes most of the time, and not the way to the device', async () => {
    const [submitMs, kernelMs] = [0.2, 0.005];
    const repeats = await repeatsFor(2, async (many) => submitMs + many * kernelMs);
    expect((repeats * kernelMs) / (submitMs + repeats * kernelMs)).toBeGreaterThan(0.9);
  });

  it('are one for what takes long anyway, and bounded for what takes no time at all', async () => {
    expect(await repeatsFor(2, async (many) => 3 * many)).toBe(1);
    expect(await repeatsFor(2, async () => 0)).toBe(4096);
  });
});
