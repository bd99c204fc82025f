import { describe, expect, it } from 'vitest';
import { HoldMeter } from '../../src/connector/hold-meter.ts';

describe('HoldMeter', () => {
  it('integrates held blocks over time, counting a block that is held twice once', () => {
    let now = 100;
    const meter = new HoldMeter({ now: () => now, sleep: async () => {} });
    meter.begin([[1, 2, 3]]);
    now = 110; // 3 blocks for 10 ms
    meter.begin([[3, 4]]);
    now = 130; // 4 blocks for 20 ms
    meter.end([[1, 2, 3]]);
    now = 135; // blocks 3 and 4 for 5 ms
    expect(meter.use()).toEqual({ blocks: 2, peakBlocks: 4, blockMs: 30 + 80 + 10, sinceMs: 100, atMs: 135 });
    meter.end([[3, 4]]);
    now = 1000;
    expect(meter.use()).toMatchObject({ blocks: 0, peakBlocks: 4, blockMs: 120, atMs: 1000 });
  });

  it('counts blocks with large ids', () => {
    const meter = new HoldMeter({ now: () => 0, sleep: async () => {} });
    meter.begin([[1, 1023]]);
    meter.begin([[1024, 1024, 9000]]);
    meter.begin([[1, 5000]]);
    expect(meter.use()).toMatchObject({ blocks: 5, peakBlocks: 5 });
    meter.end([[1, 1023]]);
    meter.end([[1024, 1024, 9000]]);
    expect(meter.use()).toMatchObject({ blocks: 2, peakBlocks: 5 });
    meter.end([[1, 5000]]);
    expect(meter.use().blocks).toBe(0);
  });

  it('counts blocks of all groups, but not the null block', () => {
    const meter = new HoldMeter({ now: () => 0, sleep: async () => {} });
    meter.begin([[1], [0, 2]]);
    expect(meter.use().blocks).toBe(2);
  });
});
