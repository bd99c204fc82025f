// out[row][n] (+)= bias[n] + sum over k of a[row][k] * weights[k][n], for many rows on a GPU. Uses tiles in workgroup
// memory as gemm_tiled.wgsl does, but larger, and prefetches the next tile. A thread computes 4 rows of 8 columns.
// The order of summation is that of gemm_split.wgsl (k_parts.wgsl), or with WHOLE that of gemm.wgsl, k ascending.
// Parts: gemm_inputs, k_parts, products, gemm_params, panels, step.
// Ends: gemm_store.

override WHOLE: bool = false; // sum along k in one part

const ROWS = 64u; // of a tile, which has 32 vec4s of columns

var<workgroup> a_tile: array<Input, 256>;       // [ROWS][4 vec4s of k]
var<workgroup> weight_tile: array<Weight, 512>; // [16 of k][32 columns]

// What one thread loads of a tile. Past an end it loads the last element again, which is not used.
struct Part {
  a: vec4f,
  w0: Weight,
  w1: Weight,
}

fn fetch(k: u32, at: vec2<u32>, a_row: u32, index: u32) -> Part {
  let last = 4 * params.inputs4 - 1;
  let row = 4 * k + index / 32;
  return Part(
    a[a_row + min(k + index % 4, params.inputs4 - 1)],
    weight(at.x + min(row, last) * at.y),
    weight(at.x + min(row + 8, last) * at.y),
  );
}

@compute @workgroup_size(16, 16)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_id) thread: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let rows = select(step.rows, step.logit_rows, params.count == 1);
  let first = group.y * ROWS;
  let a_row = min(first + index / 4, rows - 1) * params.inputs4;
  // All elements that a thread loads are in one vec4 of columns.
  let at = place(min(32 * group.x + index % 32, params.columns4 - 1));
  var left: array<vec4f, 4>;
  var right: array<vec4f, 4>;
  var whole_left: array<vec4f, 4>;
  var whole_right: array<vec4f, 4>;
  let size = part_size(params.inputs4);
  var next = fetch(0, at, a_row, index);
  for (var k = 0u; k < params.inputs4; k += 4) {
    a_tile[index] = to_input(next.a);
    weight_tile[index] = next.w0;
    weight_tile[index + 256] = next.w1;
    workgroupBarrier();
    next = fetch(k + 4, at, a_row, index);
    for (var j = 0u; j < min(4, params.inputs4 - k); j++) {
      let w_at = 128 * j + thread.x;
      let w = Weights4(weight_tile[w_at], weight_tile[w_at + 32], weight_tile[w_at + 64], weight_tile[w_at + 96]);
      let v = Weights4(weight_tile[w_at + 16], weight_tile[w_at + 48], weight_tile[w_at + 80], weight_tile[w_at + 112]);
      for (var r = 0u; r < 4; r++) {
        let x = a_tile[4 * (16 * r + thread.y) + j];
        left[r] = add_products(left[r], x, w);
        right[r] = add_products(right[r], x, v);
      }
    }
    if ((!WHOLE && (k + 4) % size == 0) || k + 4 >= params.inputs4) {
      for (var r = 0u; r < 4; r++) {
        whole_left[r] = select(whole_left[r] + left[r], left[r], WHOLE);
        whole_right[r] = select(whole_right[r] + right[r], right[r], WHOLE);
        left[r] = vec4f();
        right[r] = vec4f();
      }
    }
    workgroupBarrier();
  }
  let n = 32 * group.x + thread.x;
  for (var r = 0u; r < 4; r++) {
    let row = first + 16 * r + thread.y;
    if (row < rows && n < params.columns4) {
      store(row, n, whole_left[r]);
    }
    if (row < rows && n + 16 < params.columns4) {
      store(row, n + 16, whole_right[r]);
    }
  }
}
