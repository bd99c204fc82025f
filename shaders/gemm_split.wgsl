// out[row][n] (+)= bias[n] + sum over k of a[row][k] * weights[k][n], for few rows on a GPU, where reading weights
// dominates. k is split between threads. Each thread sums eight columns of one part and prefetches the next weights;
// then the parts are added.
// The order of summation is that of gemm_blocked.wgsl (k_parts.wgsl), for any ROWS and EIGHTS.
// Needs an even columns4, and weights as halves.
// Parts: split_sums, k_parts, products, gemm_params, panels, step, row_scale, squares.
// Ends: split_columns, gemm_store; split_pairs, gated_store, gated; split_pairs, qkv_store, rope_store.

override ROWS: u32 = 4;                // rows a workgroup computes: 1 or 4
override EIGHTS: u32 = 4;              // groups of eight columns per workgroup: 4 or 8
override ahead: bool = ROWS == 1;      // prefetch two vec4s of k, not one; with more rows, registers allow only one
override stride: u32 = select(1u, 2u, ahead);

@group(0) @binding(0) var<storage, read> a: array<vec4f>;           // [rows][inputs4]
@group(0) @binding(1) var<storage, read> weights: array<vec4<u32>>; // [panel][4 * inputs4][its vec4 pairs], eight halves each
@group(0) @binding(2) var<storage, read> bias: array<vec4f>;        // [columns4]
@group(0) @binding(3) var<storage, read> norm: array<vec4f>;        // [inputs4], for NORM
@group(0) @binding(4) var<uniform> params: Params;
@group(0) @binding(5) var<uniform> step: Step;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let rows = select(step.rows, step.logit_rows, params.count == 1);
  let first = group.y * ROWS;
  let bases = min(vec4(first) + vec4(0u, 1, 2, 3), vec4(rows - 1)) * params.inputs4;
  let at = in_panels(eight_of(group.x, thread % EIGHTS), params.columns4 / 2, params.panel4 / 2, 4 * params.inputs4);
  let size = part_size(params.inputs4);
  let parts = (params.inputs4 + size - 1) / size;
  var scales = vec4(1.0);
  var total: vec4f;
  for (var part = 0u; part < parts; part += slots) {
    let begin = min((part + thread / EIGHTS) * size, params.inputs4);
    let end = min(begin + size, params.inputs4);
    var w0 = four_k(begin, end, at);
    var w1 = four_k(begin + 1, end, at);
    if (NORM && part == 0) {
      scales = scales_of(bases, thread);
    }
    var x0 = inputs(begin, end, bases, scales);
    var x1 = inputs(begin + 1, end, bases, scales);
    var sums = Sums();
    for (var k = begin; k < end; k += stride) {
      let w = w0;
      let x = x0;
      w0 = four_k(k + stride, end, at);
      x0 = inputs(k + stride, end, bases, scales);
      sums = add(sums, x, w);
      if (ahead) {
        let v = w1;
        let y = x1;
        w1 = four_k(k + stride + 1, end, at);
        x1 = inputs(k + stride + 1, end, bases, scales);
        if (k + 1 < end) {
          sums = add(sums, y, v);
        }
      }
    }
    for (var r = 0u; r < ROWS; r++) {
      sums_of_parts[2 * thread] = row_of(sums.low, r);
      sums_of_parts[2 * thread + 1] = row_of(sums.high, r);
      workgroupBarrier();
      if (thread / width4 == r) {
        total = add_parts(total, thread % width4, min(slots, parts - part));
      }
      workgroupBarrier();
    }
  }
  if (thread < ROWS * width4) {
    sums_of_parts[thread] = total;
  }
  workgroupBarrier();
  finish(first, min(ROWS, rows - first), group.x, thread);
}
