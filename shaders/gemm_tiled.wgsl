// out[row][n] (+)= bias[n] + sum over k of a[row][k] * weights[k][n], by tiles in workgroup memory, for GPUs without a
// fixed subgroup size, or if the autotune finds it faster. A thread computes ROWS / 8 rows of 4 columns.
// The order of summation is fixed: k ascending, four at a time, as in gemm.wgsl, for any ROWS.
// Parts: gemm_inputs, products, gemm_params, panels, step.
// Ends: gemm_store.

override ROWS: u32 = 64;            // rows of a tile, a multiple of 8 and at most 64; the tile has 16 vec4s of columns
override each: u32 = ROWS / 8;      // rows a thread computes

var<workgroup> a_tile: array<Input, 256>;       // [ROWS][4 vec4s of k]
var<workgroup> weight_tile: array<Weight, 256>; // [16 of k][16 columns]

@compute @workgroup_size(16, 8)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_id) thread: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let rows = select(step.rows, step.logit_rows, params.count == 1);
  let first = group.y * ROWS;
  // All elements that a thread loads are in one vec4 of columns.
  let loaded = place(min(16 * group.x + index % 16, params.columns4 - 1));
  var sum: array<vec4f, 8>;
  for (var k = 0u; k < params.inputs4; k += 4) {
    // Past an end the last element is loaded again, and not used.
    for (var i = index; i < 4 * ROWS; i += 128) {
      a_tile[i] = to_input(a[min(first + i / 4, rows - 1) * params.inputs4 + min(k + i % 4, params.inputs4 - 1)]);
    }
    for (var i = index; i < 256; i += 128) {
      let row = min(4 * k + i / 16, 4 * params.inputs4 - 1);
      weight_tile[i] = weight(loaded.x + row * loaded.y);
    }
    workgroupBarrier();
    for (var j = 0u; j < min(4, params.inputs4 - k); j++) {
      let w0 = weight_tile[64 * j + thread.x];
      let w1 = weight_tile[64 * j + 16 + thread.x];
      let w2 = weight_tile[64 * j + 32 + thread.x];
      let w3 = weight_tile[64 * j + 48 + thread.x];
      for (var r = 0u; r < each; r++) {
        sum[r] = add_products(sum[r], a_tile[4 * (8 * r + thread.y) + j], Weights4(w0, w1, w2, w3));
      }
    }
    workgroupBarrier();
  }
  let n = 16 * group.x + thread.x;
  for (var r = 0u; r < each; r++) {
    let row = first + 8 * r + thread.y;
    if (n < params.columns4 && row < rows) {
      store(row, n, sum[r]);
    }
  }
}
