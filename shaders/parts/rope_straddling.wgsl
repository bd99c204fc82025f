// Rotates a head of q or k whose half is not a whole number of vec4s: partners are found one by one.

// Value d of a head of q or k, normalised with QK_NORM. `norm`: index of the norm's weights.
fn normed(base: u32, norm: u32, inverse: f32, d: u32) -> f32 {
  let x = qkv[base + d / 4][d % 4];
  if (QK_NORM) {
    return x * inverse * head_norms[norm + d / 4][d % 4];
  }
  return x;
}

// vec4 `i` of a head of q or k, rotated, if pairs straddle vec4s.
fn turned_vec4(base: u32, norm: u32, inverse: f32, position: u32, i: u32) -> vec4f {
  var turned: vec4f;
  for (var c = 0u; c < 4; c++) {
    let pair = (4 * i + c) % half;
    let low = normed(base, norm, inverse, pair);
    let high = normed(base, norm, inverse, pair + half);
    let at = position * HEAD_DIM + pair;
    let cos = turns[at / 4][at % 4];
    let sin = turns[(at + half) / 4][(at + half) % 4];
    turned[c] = select(fma(high, cos, low * sin), fma(low, cos, -(high * sin)), 4 * i + c < half);
  }
  return turned;
}
