import { expect, it } from 'vitest';
import { growth, type MemoryMark, memoryLines, noFault } from '../../src/cli/bench/server-memory.ts';

const MIB = 2 ** 20;
const before: MemoryMark = { requests: 0, live: 40 * MIB, gpu: 70 * MIB, shared: 4 * MIB, resident: null };
const half = { ...before, requests: 6000, live: 50 * MIB, resident: 400 * MIB };
const after = { ...half, requests: 12_000, live: 51 * MIB, resident: 420 * MIB };
const growing = (change: Partial<MemoryMark>) => growth({ before, half, after: { ...after, ...change } });

it('growth in the second half of a load is a fault: any GPU byte, or bytes left by each request', () => {
  expect(growing({})).toEqual([]);
  expect(growing({ gpu: 70 * MIB + 4 })).toEqual(['gpu memory went from 73400320 to 73400324 bytes']);
  expect(growing({ shared: 8 * MIB })).toEqual(['shared memory went from 4194304 to 8388608 bytes']);
  expect(growing({ shared: 0 })).toEqual([]);
  const met = { ...before, shared: 8 * MIB };
  expect(growth({ before: met, half, after: { ...after, shared: 8 * MIB } })).toEqual([]);
  expect(growing({ live: 50 * MIB + 6000 * 600 })).toEqual(['each request left 600 bytes behind']);
  expect(growth({ before, half, after: { ...after, resident: 480 * MIB } }, 1)).toEqual([]);
  expect(growth({ before, half, after: { ...after, resident: 490 * MIB } }, 1)).toHaveLength(1);
  expect(growing({ resident: 480 * MIB })).toEqual(['the process went from 400.0 to 480.0 MiB']);
});

it('growth in a short load is not judged, because code is still being compiled', () => {
  const short = { ...after, requests: 7000, live: 80 * MIB };
  expect(growth({ before, half, after: short })).toEqual([]);
  expect(noFault({ before, half, after: short })).toMatch(/too few requests to tell whether memory grows$/);
  expect(noFault({ before, half, after })).toMatch(/no growth of memory$/);
});

it('no figure per request is printed if there were no requests', () => {
  expect(memoryLines({ before, half, after }).join()).toContain('(175 bytes per request in the second half)');
  expect(memoryLines({ before, half, after: half }).join()).not.toMatch(/NaN|a request/);
});
