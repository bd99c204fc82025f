/**
 * Converts IEEE half floats, as Uint16 bit patterns, to and from float32. Rounds to nearest, ties to even, and keeps
 * subnormals.
 */

const f32 = new Float32Array(1);
const u32 = new Uint32Array(f32.buffer);

/**
 * Bits of the half nearest to a float32; other numbers are rounded to float32 first. 65,520 and above give infinity.
 */
export function floatToHalf(value: number): number {
  f32[0] = value;
  const bits = u32[0]!;
  const sign = (bits >>> 16) & 0x8000;
  const magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  // Normal: rebias the exponent (-112) and round off 13 bits. A carry into the exponent is correct.
  if (magnitude >= 0x38800000) {
    const rebased = magnitude - 0x38000000;
    return sign | ((rebased + 0x0fff + ((rebased >>> 13) & 1)) >>> 13);
  }
  if (magnitude <= 0x33000000) return sign;
  const shift = 126 - (magnitude >>> 23);
  const mantissa = (magnitude & 0x7fffff) | 0x800000;
  const kept = mantissa >>> shift;
  const rest = mantissa & ((1 << shift) - 1);
  const half = 1 << (shift - 1);
  return sign | (kept + (rest > half || (rest === half && (kept & 1) === 1) ? 1 : 0));
}

function decodeHalf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >>> 10) & 0x1f;
  const mantissa = bits & 0x3ff;
  if (exponent === 0x1f) return mantissa ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  if (exponent === 0) return sign * mantissa * 2 ** -24;
  return sign * (1 + mantissa / 1024) * 2 ** (exponent - 15);
}

let table: Float32Array | null = null;

/** The value of each of the 65,536 half patterns, by pattern. */
export function halfTable(): Float32Array {
  table ??= Float32Array.from({ length: 65536 }, (_, bits) => decodeHalf(bits));
  return table;
}

export function halfToFloat(bits: number): number {
  return table ? table[bits & 0xffff]! : decodeHalf(bits & 0xffff);
}
