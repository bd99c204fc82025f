// out[row][i] = silu(gate[i]) * up[i], where a row of gate_up holds gate, then up. The padding of out is 0.
// With GELU the gate's activation is gelu's tanh approximation: x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)).
// Parts: step.

struct Params {
  width: u32,   // intermediate size, values
  width4: u32,  // rounded up to vec4s: a row of out
  stride4: u32, // a row of gate_up, vec4s
}

override WORKGROUP: u32 = 64;  // threads along a row
override GELU: bool = false;   // else silu

@group(0) @binding(0) var<storage, read> gate_up: array<f32>;     // [rows][4 * stride4]
@group(0) @binding(1) var<storage, read_write> out: array<vec4f>; // [rows][width4]
@group(0) @binding(2) var<uniform> params: Params;
@group(0) @binding(3) var<uniform> step: Step;

fn activated(row: u32, i: u32) -> f32 {
  if (i >= params.width) {
    return 0.0;
  }
  let at = row * 4 * params.stride4 + i;
  let gate = gate_up[at];
  var slope = gate;
  if (GELU) {
    slope = max(1.5957691216057308 * fma(0.044715 * gate * gate, gate, gate), -88.0); // exp(89) is no number
  }
  return gate / (1.0 + exp(-slope)) * gate_up[at + params.width];
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let row = id.y;
  if (row >= step.rows || id.x >= params.width4) {
    return;
  }
  let i = 4 * id.x;
  out[row * params.width4 + id.x] =
    vec4f(activated(row, i), activated(row, i + 1), activated(row, i + 2), activated(row, i + 3));
}
