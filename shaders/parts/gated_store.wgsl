// End of the matrix kernel for gate and up. A pair is one vec4 of each, at the same place in its half of the columns.

@group(0) @binding(6) var<storage, read_write> out: array<vec4f>; // [rows][columns4 / 2]

fn first_of_pair(pair: u32) -> u32 {
  return pair;
}

fn pair_distance() -> u32 {
  return params.columns4 / 2;
}

fn store_pair(row: u32, pair: u32, gate: vec4f, up: vec4f) {
  out[row * (params.columns4 / 2) + pair] = gated(gate, up);
}
