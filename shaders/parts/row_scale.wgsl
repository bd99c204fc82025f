// 1 / RMS of a row of a, by a workgroup with barriers. The order of summation does not depend on the threads: SUMS
// partial sums, each over every SUMS-th vec4; then the upper half is added to the lower half until one is left.

override SUMS: u32 = 64; // a power of two

var<workgroup> sums: array<f32, SUMS>;

// For the row that starts at vec4 `base`. All `threads` threads must call it.
fn row_scale(base: u32, width4: u32, width: u32, eps: f32, thread: u32, threads: u32) -> f32 {
  for (var s = thread; s < SUMS; s += threads) {
    sums[s] = squares(base, width4, s, SUMS);
  }
  workgroupBarrier();
  for (var half = SUMS / 2; half > 0; half /= 2) {
    for (var s = thread; s < half; s += threads) {
      sums[s] += sums[s + half];
    }
    workgroupBarrier();
  }
  let sum = sums[0];
  workgroupBarrier(); // before the next row overwrites sums
  return inverseSqrt(sum / f32(width) + eps);
}
