// x[row] += delta[row]; out[row] = x[row] / sqrt(mean(x[row]^2) + eps) * weight. A workgroup a row.
// With GATHER only the rows that get logits are normalised, out is in their order, and x stays as it was.
// Parts: step.

struct Params {
  hidden: u32,  // hidden size, values
  hidden4: u32, // rounded up to vec4s; the padding of x is 0
  eps: f32,     // added to the mean of squares
}

override WORKGROUP: u32 = 64;  // threads a row, a power of two
override ADD: bool = true;     // add delta
override GATHER: bool = false; // only the rows in logit_rows

@group(0) @binding(0) var<storage, read_write> x: array<vec4f>;   // [rows][hidden4]
@group(0) @binding(1) var<storage, read> delta: array<vec4f>;     // [rows][hidden4]
@group(0) @binding(2) var<storage, read> weight: array<vec4f>;    // [hidden4]
@group(0) @binding(3) var<storage, read> logit_rows: array<u32>;  // rows to gather
@group(0) @binding(4) var<storage, read_write> out: array<vec4f>; // [rows][hidden4]
@group(0) @binding(5) var<uniform> params: Params;
@group(0) @binding(6) var<uniform> step: Step;

var<workgroup> squares: array<f32, WORKGROUP>;

fn value(at: u32) -> vec4f {
  if (ADD) {
    return x[at] + delta[at];
  }
  return x[at];
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let out_row = group.x;
  var row = out_row;
  if (GATHER) {
    row = logit_rows[out_row];
  }
  let base = row * params.hidden4;
  var sum = 0.0;
  for (var i = thread; i < params.hidden4; i += WORKGROUP) {
    let v = value(base + i);
    sum += dot(v, v);
    if (ADD && !GATHER) {
      x[base + i] = v;
    }
  }
  squares[thread] = sum;
  workgroupBarrier();
  for (var half = WORKGROUP / 2; half > 0; half /= 2) {
    if (thread < half) {
      squares[thread] += squares[thread + half];
    }
    workgroupBarrier();
  }
  let scale = inverseSqrt(squares[0] / f32(params.hidden) + params.eps);
  for (var i = thread; i < params.hidden4; i += WORKGROUP) {
    // Where x was updated above, this thread wrote it.
    var v: vec4f;
    if (GATHER) {
      v = value(base + i);
    } else {
      v = x[base + i];
    }
    out[out_row * params.hidden4 + i] = v * scale * weight[i];
  }
}
