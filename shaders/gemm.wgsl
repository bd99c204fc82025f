// out[row][n] (+)= bias[n] + sum over k of a[row][k] * weights[k][n].
// A subgroup computes ROWS rows of 4 columns a lane: each lane loads one row's part of a, the others get it by shuffle.
// One order of sums: k ascends, four k at a time, whatever ROWS and wherever the row stands.
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
  // Of up to 16 lanes all are in one panel: told by the workgroup alone, it is one number for all of them.
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
  // By a row that no compiler knows, so that it stays a loop: 16 stores written out took 3 s to compile.
  var sums = sum;
  for (var row = first; row < min(first + ROWS, rows); row++) {
    store(row, n, sums[row % ROWS]);
  }
}
