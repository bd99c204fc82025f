// out[row][i] = silu(gate[i]) * up[i], or with gelu. A row of gate_up holds gate, then up. The padding of out is 0.
// Parts: gated, step.

struct Params {
  width: u32,   // intermediate size, values
  width4: u32,  // rounded up to vec4s: a row of out
  stride4: u32, // vec4s per row of gate_up
}

override WORKGROUP: u32 = 64;  // threads along a row

@group(0) @binding(0) var<storage, read> gate_up: array<f32>;     // [rows][4 * stride4]
@group(0) @binding(1) var<storage, read_write> out: array<vec4f>; // [rows][width4]
@group(0) @binding(2) var<uniform> params: Params;
@group(0) @binding(3) var<uniform> step: Step;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let row = id.y;
  if (row >= step.rows || id.x >= params.width4) {
    return;
  }
  var gate: vec4f;
  var up: vec4f;
  for (var c = 0u; c < 4; c++) {
    let i = 4 * id.x + c;
    if (i < params.width) {
      let at = row * 4 * params.stride4 + i;
      gate[c] = gate_up[at];
      up[c] = gate_up[at + params.width];
    }
  }
  out[row * params.width4 + id.x] = gated(gate, up);
}
