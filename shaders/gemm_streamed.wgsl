// out[row][n] (+)= bias[n] + sum over k of a[row][k] * weights[k][n], for few rows on a GPU, where reading weights is all: a
// workgroup streams those of 32 columns through its memory, one tile being summed up, one written, two on their way. A thread
// has one column of its rows. One order of sums: k ascends, four at a time, as in gemm.wgsl, whatever ROWS.
// Needs an even columns4, and weights as halves.
// Parts: streamed_tiles, products, gemm_params, panels, step, row_scale, squares.
// Ends: streamed_columns, gemm_store; streamed_pairs, gated_store, gated; streamed_pairs, qkv_store, rope_store.

override ROWS: u32 = 4;                 // rows a workgroup computes: 1, 4 or 8; with NORM 1 or 4
override row_groups: u32 = min(ROWS, 4); // 32 threads each
override each: u32 = ROWS / row_groups; // rows a thread computes, 1 or 2

@group(0) @binding(0) var<storage, read> a: array<vec4f>;           // [rows][inputs4]
@group(0) @binding(1) var<storage, read> weights: array<vec4<u32>>; // [panel][4 * inputs4][its vec4 pairs], eight halves each
@group(0) @binding(2) var<storage, read> bias: array<vec4f>;        // [columns4]
@group(0) @binding(3) var<storage, read> norm: array<vec4f>;        // [inputs4], of NORM
@group(0) @binding(4) var<uniform> params: Params;
@group(0) @binding(5) var<uniform> step: Step;

// What the tile that begins at vec4 `k` adds.
fn add_tile(sum: vec2f, k: u32, half: u32, thread: u32) -> vec2f {
  if (thread >= row_groups * COLUMNS) {
    return sum;
  }
  let at = half * TILE + thread % COLUMNS;
  let row = half * A_TILE + thread / COLUMNS * each * DEPTH;
  let count = min(DEPTH, params.inputs4 - k);
  var more = sum;
  var i = 0u;
  for (; i + 8 <= count; i += 8) {
    more = add_eight(more, row + i, at + i * STRIDE);
  }
  for (; i < count; i++) {
    more = add_one(more, row + i, at + i * STRIDE);
  }
  return more;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let rows = select(step.rows, step.logit_rows, params.count == 1);
  let first = group.y * ROWS;
  let a_row = min(first + a_place(thread) / DEPTH, rows - 1) * params.inputs4;
  let eight = eight_of(group.x, thread % 4);
  let at = in_panels(eight, params.columns4 / 2, params.panel4 / 2, 4 * params.inputs4);
  var near = fetch(0, at, a_row, thread);
  var far = fetch(DEPTH, at, a_row, thread);
  var scale = 1.0;
  if (NORM) {
    for (var r = 0u; r < row_groups; r++) {
      let base = min(first + r, rows - 1) * params.inputs4;
      let found = row_scale(base, params.inputs4, params.inputs, params.eps, thread, THREADS);
      scale = select(scale, found, a_place(thread) / DEPTH == r);
    }
  }
  keep(near, scale, 0, thread);
  near = fetch(2 * DEPTH, at, a_row, thread);
  workgroupBarrier();
  var sum: vec2f;
  for (var k = 0u; k < params.inputs4; k += 2 * DEPTH) {
    keep(far, scale, 1, thread);
    far = fetch(k + 3 * DEPTH, at, a_row, thread);
    sum = add_tile(sum, k, 0, thread);
    workgroupBarrier();
    if (k + DEPTH < params.inputs4) {
      keep(near, scale, 0, thread);
      near = fetch(k + 4 * DEPTH, at, a_row, thread);
      sum = add_tile(sum, k + DEPTH, 1, thread);
      workgroupBarrier();
    }
  }
  if (thread < row_groups * COLUMNS) {
    let column = thread % 4 * 8 + thread % COLUMNS / 4;
    let row = thread / COLUMNS * each;
    weight_tile[row * COLUMNS + column].x = bitcast<u32>(sum.x);
    if (each > 1) {
      weight_tile[(row + 1) * COLUMNS + column].x = bitcast<u32>(sum.y);
    }
  }
  workgroupBarrier();
  finish(first, min(ROWS, rows - first), group.x, thread);
}
