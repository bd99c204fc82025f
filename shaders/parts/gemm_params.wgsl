// Parameters of every matrix kernel, and the optional norm of its left side.

struct Params {
  inputs4: u32,  // K / 4, vec4s
  columns4: u32, // N / 4, vec4s
  use_bias: u32, // 1: add bias
  add: u32,      // 1: add to what out holds, the residual
  count: u32,    // which count of Step applies: 0 rows, 1 logit rows
  stride4: u32,  // vec4s per row of out; more than columns4 if the weights are a piece of a wider matrix
  first4: u32,   // index of the first column in a row of out, vec4s
  panel4: u32,   // columns per panel of weights, vec4s; a multiple of 16, or all of them
  inputs: u32,   // K before padding, values; for NORM
  eps: f32,      // for NORM, added to the mean of squares
}

override NORM: bool = false; // apply RMSNorm to a's rows first

// vec4 k of the row of a that starts at `base`. `scale`: 1 / RMS of that row.
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
