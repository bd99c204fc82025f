// out[row][n] (+)= bias[n] + sum over k of a[row][k] * weights[k][n].
// A subgroup computes ROWS rows of 4 columns per lane. Each lane loads one row's part of a and shares it by shuffle.
// The order of summation is fixed: k ascending, four at a time, for any ROWS and any position of the row.
// Parts: gemm_inputs, products, gemm_params, panels, step.
// Ends: gemm_store.
enable subgroups;

override SUBGROUP: u32 = 8;         // lanes; the adapter's fixed size
override ROWS: u32 = 16;            // rows a subgroup computes, at most 16

@compute @workgroup_size(SUBGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let rows = select(step.rows, step.logit_rows, params.count == 1);
  let first = group.y * ROWS;
  let column = group.x * SUBGROUP + lane;
  let n = min(column, params.columns4 - 1);
  var sum: array<vec4f, 16>;
  // Up to 16 lanes lie in one panel. Deriving the stride from the workgroup alone makes it uniform across lanes.
  let stride = place(select(n, group.x * SUBGROUP, SUBGROUP <= 16)).y;
  var at = place(n).x;
  for (var k = 0u; k < params.inputs4; k++) {
    let w = Weights4(weight(at), weight(at + stride), weight(at + 2 * stride), weight(at + 3 * stride));
    at += 4 * stride;
    for (var base = 0u; base < ROWS; base += SUBGROUP) {
      let row = min(first + base + lane, rows - 1);
      let mine = to_input(a[row * params.inputs4 + k]);
      for (var r = 0u; r < min(SUBGROUP, ROWS - base); r++) {
        sum[base + r] = add_products(sum[base + r], subgroupShuffle(mine, r), w);
      }
    }
  }
  if (column >= params.columns4) {
    return;
  }
  // A runtime index keeps this loop from being unrolled: 16 separate stores took 3 s to compile.
  var sums = sum;
  for (var row = first; row < min(first + ROWS, rows); row++) {
    store(row, n, sums[row % ROWS]);
  }
}
