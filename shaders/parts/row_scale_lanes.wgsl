// 1 / RMS of a row of a, by the lanes of a subgroup, in row_scale.wgsl's order of summation. A lane has several partial
// sums.

override SUMS: u32 = 64;             // a power of two, at least SUBGROUP, and at most 32 per lane
override each: u32 = SUMS / SUBGROUP; // sums per lane

// For the row that starts at vec4 `base`. All lanes must call it.
fn row_scale(base: u32, lane: u32) -> f32 {
  var sums: array<f32, 32>;
  for (var s = 0u; s < each; s++) {
    sums[s] = squares(base, params.inputs4, lane + s * SUBGROUP, SUMS);
  }
  for (var half = each / 2; half > 0; half /= 2) {
    for (var s = 0u; s < half; s++) {
      sums[s] += sums[s + half];
    }
  }
  var sum = sums[0];
  for (var half = SUBGROUP / 2; half > 0; half /= 2) {
    sum += subgroupShuffleXor(sum, half);
  }
  return inverseSqrt(sum / f32(params.inputs) + params.eps);
}
