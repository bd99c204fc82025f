// out[row][n] (+)= bias[n] + sum over k of a[row][k] * weights[k][n], for few rows: decode, where reading weights
// dominates. A lane owns 8 columns, so that one load brings 8 packed weights. One load of a by the subgroup serves
// several k.
// The order of summation is fixed: k ascending, four at a time, as in gemm.wgsl, for any ROWS. Needs an even columns4.
// Parts: products, gemm_params, panels, step, row_scale_lanes, squares.
// Ends: wide_columns, gemm_store; wide_pairs, gated_store, gated; wide_pairs, qkv_store, rope_store.
enable subgroups;

override SUBGROUP: u32 = 8;         // lanes; the adapter's fixed size, a multiple of ROWS
override ROWS: u32 = 4;             // rows a subgroup computes: 1, 2 or 4
override WEIGHTS_F32: bool = false; // else two halves per u32
override depth: u32 = SUBGROUP / ROWS; // vec4s of k in one load of a by the subgroup

@group(0) @binding(0) var<storage, read> a: array<vec4f>;           // [rows][inputs4]
@group(0) @binding(1) var<storage, read> weights: array<vec4<u32>>; // [panel][4 * inputs4][its vec4 pairs]; f32: two vec4s per index
@group(0) @binding(2) var<storage, read> bias: array<vec4f>;        // [columns4]
@group(0) @binding(3) var<storage, read> norm: array<vec4f>;        // [inputs4], for NORM
@group(0) @binding(4) var<uniform> params: Params;
@group(0) @binding(5) var<uniform> step: Step;

struct Eight {
  low: Weight,  // columns 0 to 3
  high: Weight, // columns 4 to 7
}

fn eight(index: u32) -> Eight {
  if (WEIGHTS_F32) {
    let low = bitcast<vec4f>(weights[2 * index]);
    return Eight(to_weight(low), to_weight(bitcast<vec4f>(weights[2 * index + 1])));
  }
  let halves = weights[index];
  return Eight(packed_weight(halves.xy), packed_weight(halves.zw));
}

// Index of 8 columns' first element, and the distance between their rows.
fn place(n: u32) -> vec2<u32> {
  return in_panels(n, params.columns4 / 2, params.panel4 / 2, 4 * params.inputs4);
}

@compute @workgroup_size(SUBGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let rows = select(step.rows, step.logit_rows, params.count == 1);
  let n = columns_of(group.x, lane);
  let first = group.y * ROWS;
  let end = min(first + ROWS, rows);
  // Lanes cover the rows, then the next vec4 of k: lane = k4 * ROWS + row.
  let a_row = min(first + lane % ROWS, rows - 1) * params.inputs4;
  var scale = 1.0;
  if (NORM) {
    for (var row = first; row < end; row++) {
      let found = row_scale(row * params.inputs4, lane);
      scale = select(scale, found, lane % ROWS == row - first);
    }
  }
  var low: array<vec4f, 4>;
  var high: array<vec4f, 4>;
  // Up to 8 lanes lie in one panel. Deriving the stride from the workgroup alone makes it uniform across lanes.
  let stride = place(select(n, group.x * SUBGROUP, SUBGROUP <= 8)).y;
  var at = place(n).x;
  for (var k = 0u; k < params.inputs4; k += depth) {
    let loaded = to_input(input(a_row, min(k + lane / ROWS, params.inputs4 - 1), scale));
    for (var j = 0u; j < min(depth, params.inputs4 - k); j++) {
      let w0 = eight(at);
      let w1 = eight(at + stride);
      let w2 = eight(at + 2 * stride);
      let w3 = eight(at + 3 * stride);
      at += 4 * stride;
      for (var r = 0u; r < ROWS; r++) {
        let x = subgroupShuffle(loaded, j * ROWS + r);
        low[r] = add_products(low[r], x, Weights4(w0.low, w1.low, w2.low, w3.low));
        high[r] = add_products(high[r], x, Weights4(w0.high, w1.high, w2.high, w3.high));
      }
    }
  }
  // A runtime index keeps this loop from being unrolled, as in gemm.wgsl.
  var lows = low;
  var highs = high;
  for (var row = first; row < end; row++) {
    finish(row, group.x, lane, lows[row % ROWS], highs[row % ROWS]);
  }
}
