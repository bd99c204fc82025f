import { expect, it } from 'vitest';
import { copyBytes } from '../src/copy-bytes.ts';

const counting = (buffer: ArrayBufferLike): Uint8Array => new Uint8Array(buffer).map((_, i) => i + 1);

it.each([
  ['shared to own', SharedArrayBuffer, ArrayBuffer],
  ['own to shared', ArrayBuffer, SharedArrayBuffer],
  ['own to own', ArrayBuffer, ArrayBuffer],
])('copies to the start of the target and touches nothing else: %s', (_, From, To) => {
  const source = new Uint8Array(new From(16));
  source.set(counting(new ArrayBuffer(16)));
  const whole = new Uint8Array(new To(16));
  copyBytes(whole.subarray(3, 13), source.subarray(5, 11));
  expect([...whole]).toEqual([0, 0, 0, 6, 7, 8, 9, 10, 11, 0, 0, 0, 0, 0, 0, 0]);
});

it('copies nothing from an empty source, and refuses one that does not fit', () => {
  const whole = new Uint8Array(8).fill(9);
  copyBytes(whole.subarray(2, 4), new Uint8Array());
  expect(() => copyBytes(whole.subarray(2, 4), new Uint8Array(3))).toThrow(RangeError);
  expect([...whole]).toEqual([9, 9, 9, 9, 9, 9, 9, 9]);
});
