// End of the matrix kernel for q, k and v. A pair is two vec4s of a head that are rotated together. Needs a head_dim
// that is a multiple of 16, and no QK norm.

@group(0) @binding(6) var<storage, read> turns: array<vec4f>;           // [position][cos, sin][half4]
@group(0) @binding(7) var<storage, read> tokens: array<vec4<u32>>;      // [rows]: token id, position, slot, unused
@group(0) @binding(8) var<storage, read_write> q: array<vec4f>;         // [rows][heads][HEAD_DIM / 4]
@group(0) @binding(9) var<storage, read_write> cache: array<vec2<u32>>; // [block][layer] or [layer][block], [k, v][kv head][slot][HEAD_DIM / 4]
@group(0) @binding(10) var<uniform> rope: RopeParams;

fn first_of_pair(pair: u32) -> u32 {
  return pair / half4 * dims4 + pair % half4;
}

fn pair_distance() -> u32 {
  return half4;
}

fn store_pair(row: u32, pair: u32, low: vec4f, high: vec4f) {
  store_turned(row, pair / half4, pair % half4, low, high);
}
