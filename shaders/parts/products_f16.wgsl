// Products of the matrix kernels in f16, sums in f32. Four k are multiplied and added as halves, and their sum is added
// to the f32 sum, k ascending. All forms do the same, so they give the same bits.
// A device that computes on pairs of halves needs 8 + 4 operations instead of 16, and moves half as much data between
// lanes and tiles. Longer runs of halves would need fewer operations and lose more precision: with four, the sum is off
// by at most 6 * 2^-11 of its terms' magnitudes.
// Values of a may have any magnitude: four of them share a power of two, so that the largest is in [1, 2) as a half.
// Nothing overflows before weights reach 8,000. Small values lose what is below 2^-25 of the largest of the four. NaN
// stays NaN.

alias Input = vec3<u32>;  // four k of a row of a: halves, and the bits of their common factor
alias Weight = vec4h;     // four columns of a k, or four k of a column
alias Weights4 = mat4x4h; // the same for four k

fn to_input(x: vec4f) -> Input {
  let size = abs(x);
  let largest = bitcast<u32>(max(max(size.x, size.y), max(size.z, size.w)));
  // Its exponent; at most 2^126, so that 1 / power is not subnormal.
  let power = min(largest & 0x7f800000, 0x7e800000);
  let halves = vec4h(x * bitcast<f32>(0x7f000000 - power));
  return vec3(bitcast<vec2<u32>>(halves), power);
}

fn to_weight(w: vec4f) -> Weight {
  return vec4h(w);
}

fn packed_weight(halves: vec2<u32>) -> Weight {
  return bitcast<vec4h>(halves);
}

fn add_products(sum: vec4f, x: Input, w: Weights4) -> vec4f {
  let h = bitcast<vec4h>(x.xy);
  let four = fma(vec4h(h.w), w[3], fma(vec4h(h.z), w[2], fma(vec4h(h.y), w[1], h.x * w[0])));
  return fma(vec4f(four), vec4f(bitcast<f32>(x.z)), sum);
}
