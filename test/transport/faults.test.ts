import { expect, it } from 'vitest';
import { halfToFloat } from '../../src/model/half.ts';
import { flipOneBit } from '../../src/transport/faults.ts';

it('a flipped bit leaves a number another number, and is the only one', () => {
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
