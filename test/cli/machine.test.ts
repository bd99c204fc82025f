/** The memory that this machine has left. */
import os from 'node:os';
import { afterEach, expect, test, vi } from 'vitest';
import { freeMemory } from '../../src/platform/node/machine.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

const machine = (free: number, limit: number | undefined, used: number) => {
  vi.spyOn(os, 'freemem').mockReturnValue(free);
  vi.spyOn(process, 'constrainedMemory').mockReturnValue(limit as number);
  vi.spyOn(process.memoryUsage, 'rss').mockReturnValue(used);
};

test.each([
  ['a container has what is left of its limit', 64, 4, 3, 1],
  ['a container whose limit is used up has nothing left', 64, 4, 5, 0],
  ['a limit above the free memory does not count', 2, 64, 3, 2],
  ['without a limit the free memory is left', 64, 0, 3, 64],
  ['with an unknown limit the free memory is left', 64, undefined, 3, 64],
])('%s', (_, free, limit, used, expected) => {
  machine(free, limit, used);
  expect(freeMemory()).toBe(expected);
});
