// Inputs of the matrix kernels that read four columns at once.

override WEIGHTS_F32: bool = false; // else two halves per u32

@group(0) @binding(0) var<storage, read> a: array<vec4f>;           // [rows][inputs4]
@group(0) @binding(1) var<storage, read> weights: array<vec2<u32>>; // [panel][4 * inputs4][its vec4s]; f32: two vec2s per vec4
@group(0) @binding(2) var<storage, read> bias: array<vec4f>;        // [columns4]
@group(0) @binding(3) var<storage, read> norm: array<vec4f>;        // [inputs4], for NORM
@group(0) @binding(4) var<uniform> params: Params;
@group(0) @binding(5) var<uniform> step: Step;

// Index of a vec4 of columns' first element, and the distance between its rows.
fn place(n: u32) -> vec2<u32> {
  return in_panels(n, params.columns4, params.panel4, 4 * params.inputs4);
}

fn weight(index: u32) -> Weight {
  if (WEIGHTS_F32) {
    return to_weight(bitcast<vec4f>(vec4<u32>(weights[2 * index], weights[2 * index + 1])));
  }
  return packed_weight(weights[index]);
}
