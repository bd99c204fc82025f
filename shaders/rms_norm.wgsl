// out[row] = a[row] / sqrt(mean(a[row]^2) + eps) * weight. One workgroup per row.
// With ADD, the result is added to out. With GATHER, only rows that get logits are normalised, and out has their order.
// Parts: row_scale, squares, step.

struct Params {
  hidden: u32,  // hidden size, values
  hidden4: u32, // rounded up to vec4s; the padding of a is 0
  eps: f32,     // added to the mean of squares
}

override ADD: bool = false;    // add to out
override GATHER: bool = false; // only the rows in logit_rows

@group(0) @binding(0) var<storage, read> a: array<vec4f>;         // [rows][hidden4]
@group(0) @binding(1) var<storage, read> weight: array<vec4f>;    // [hidden4]
@group(0) @binding(2) var<storage, read> logit_rows: array<u32>;  // rows to gather
@group(0) @binding(3) var<storage, read_write> out: array<vec4f>; // [rows][hidden4]
@group(0) @binding(4) var<uniform> params: Params;
@group(0) @binding(5) var<uniform> step: Step;

@compute @workgroup_size(SUMS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  var row = group.x;
  if (GATHER) {
    row = logit_rows[group.x];
  }
  let base = row * params.hidden4;
  let scale = row_scale(base, params.hidden4, params.hidden, params.eps, thread, SUMS);
  for (var i = thread; i < params.hidden4; i += SUMS) {
    let to = group.x * params.hidden4 + i;
    let normed = a[base + i] * scale * weight[i];
    if (ADD) {
      out[to] += normed;
    } else {
      out[to] = normed;
    }
  }
}
