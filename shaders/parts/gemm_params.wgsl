// What each form of the matrix kernel is told.

struct Params {
  inputs4: u32,  // K / 4, vec4s
  columns4: u32, // N / 4, vec4s
  use_bias: u32, // 1: add bias
  count: u32,    // which of step's counts: 0 rows, 1 logit rows
}
