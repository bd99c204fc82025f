import { expect, it } from 'vitest';
import { halfToFloat } from '../../src/model/weights/half.ts';
import { flipOneBit, withFault } from '../../src/transport/faults.ts';
import type { BlockMemory } from '../../src/transport/types.ts';

it('flipOneBit flips one bit, once, and the value stays finite', () => {
  for (let bits = 0; bits < 2 ** 16; bits++) {
    if (!Number.isFinite(halfToFloat(bits))) continue;
    const bytes = new Uint8Array(Uint16Array.of(bits, bits).buffer);
    const flip = flipOneBit();
    flip(bytes);
    const [found, beside] = new Uint16Array(bytes.buffer);
    expect(Math.log2(bits ^ found!) % 1).toBe(0);
    expect(Number.isFinite(halfToFloat(found!))).toBe(true);
    flip(bytes);
    expect([...new Uint16Array(bytes.buffer)]).toEqual([found, beside]);
    expect(beside).toBe(bits);
  }
});

/** Two groups with blocks of 4 bytes. `written`: for each commit, the group and the first byte of each block. */
function memory(): { memory: BlockMemory; written: [number, number[]][] } {
  const written: [number, number[]][] = [];
  return {
    written,
    memory: {
      blockBytes: [4, 4],
      numBlocks: [9, 9],
      maxStagingBytes: 64,
      gather: () => Promise.reject(new Error('nothing is gathered here')),
      stage: async (byteLength) => {
        const bytes = new Uint8Array(byteLength);
        const commit = async (group: number, ids: readonly number[]) => {
          written.push([group, ids.map((_, i) => bytes[4 * i]!)]);
          return { scatterMs: 0 };
        };
        return { bytes, commit, discard: () => {} };
      },
    },
  };
}

it.each([
  [
    'wrong-group',
    [
      [0, [7, 8]],
      [1, [7, 2]],
      [1, [1, 2]],
    ],
  ],
  [
    'null-block',
    [
      [0, [0, 8]],
      [1, [1, 2]],
      [1, [1, 2]],
    ],
  ],
] as const)("the fault '%s' damages one block, once", async (kind, expected) => {
  const { memory: plain, written } = memory();
  const damaged = withFault(plain, kind, 1);
  for (const [group, first] of [
    [0, [7, 8]],
    [1, [1, 2]],
    [1, [1, 2]],
  ] as const) {
    const staged = await damaged.stage(8);
    first.forEach((value, i) => {
      staged.bytes.fill(value, 4 * i, 4 * i + 4);
    });
    await staged.commit(group, [3, 4]);
  }
  expect(written).toEqual(expected);
});
