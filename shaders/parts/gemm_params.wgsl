// What each form of the matrix kernel is told, and how it takes its left side.

struct Params {
  inputs4: u32,  // K / 4, vec4s
  columns4: u32, // N / 4, vec4s
  use_bias: u32, // 1: add bias
  add: u32,      // 1: add what out holds, the residual
  count: u32,    // which of step's counts: 0 rows, 1 logit rows
  stride4: u32,  // a row of out, vec4s; more than columns4 where the weights are a piece of a wider matrix
  first4: u32,   // where the columns begin in a row of out, vec4s
  panel4: u32,   // columns of weights that lie together, vec4s; a multiple of 16, or all of them
  inputs: u32,   // K before it was padded, values: of NORM
  eps: f32,      // of NORM, added to the mean of squares
}

override NORM: bool = false; // RMSNorm of a's rows first

// vec4 k of the row of a that begins at `base`; `scale`: 1 / RMS of that row.
fn input(base: u32, k: u32, scale: f32) -> vec4f {
  if (NORM) {
    return a[base + k] * scale * norm[k];
  }
  return a[base + k];
}

fn biased(n: u32, product: vec4f) -> vec4f {
  if (params.use_bias == 1) {
    return product + bias[n];
  }
  return product;
}
