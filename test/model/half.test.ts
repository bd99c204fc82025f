import { describe, expect, it } from 'vitest';
import { floatToHalf, halfToFloat } from '../../src/model/weights/half.ts';

describe('the conversion of half floats', () => {
  it('keeps every half, infinities and NaN included', () => {
    for (let bits = 0; bits < 65536; bits++) {
      const value = halfToFloat(bits);
      if (Number.isNaN(value)) expect(halfToFloat(floatToHalf(value))).toBeNaN();
      else if (floatToHalf(value) !== bits) expect.fail(`${bits} became ${floatToHalf(value)}`);
    }
  });

  it('rounds to nearest, ties to even, between all neighbours', () => {
    for (let bits = 0; bits < 0x7bff; bits++) {
      const low = halfToFloat(bits);
      const high = halfToFloat(bits + 1);
      const middle = (low + high) / 2;
      const even = bits & 1 ? bits + 1 : bits;
      const step = (high - low) / 64;
      const found = [middle, middle - step, middle + step].map(floatToHalf);
      const negative = floatToHalf(-middle);
      if (found.join() !== [even, bits, bits + 1].join()) expect.fail(`between ${low} and ${high}: ${found}`);
      if (negative !== (0x8000 | even)) expect.fail(`-${middle} became ${negative}`);
    }
  });

  it('overflows and underflows at the midpoints beyond the largest and smallest half', () => {
    expect(halfToFloat(floatToHalf(65_519))).toBe(65_504);
    expect(halfToFloat(floatToHalf(65_520))).toBe(Number.POSITIVE_INFINITY);
    expect(halfToFloat(floatToHalf(-1e30))).toBe(Number.NEGATIVE_INFINITY);
    expect(halfToFloat(floatToHalf(2 ** -25))).toBe(0);
    expect(halfToFloat(floatToHalf(2 ** -25 * 1.001))).toBe(2 ** -24);
  });
});
