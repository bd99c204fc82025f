// The sum of squares of every `stride`-th vec4 of a row of a, starting with `first`.
fn squares(base: u32, width4: u32, first: u32, stride: u32) -> f32 {
  var sum = 0.0;
  for (var i = first; i < width4; i += stride) {
    let v = a[base + i];
    sum = fma(v.w, v.w, fma(v.z, v.z, fma(v.y, v.y, fma(v.x, v.x, sum))));
  }
  return sum;
}
