// What each form of the matrix kernel is told.

struct Params {
  inputs4: u32,  // K / 4, vec4s
  columns4: u32, // N / 4, vec4s
  use_bias: u32, // 1: add bias
  count: u32,    // which of step's counts: 0 rows, 1 logit rows
  stride4: u32,  // a row of out, vec4s; more than columns4 where the weights are a piece of a wider matrix
  first4: u32,   // where the columns begin in a row of out, vec4s
  panel4: u32,   // columns of weights that lie together, vec4s; a multiple of 16, or all of them
}
