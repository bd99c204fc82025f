// The weighted sum of a tile's values; a thread sums four dimensions of a row (attention_blocked.wgsl).

override quads: u32 = KEYS / 4; // threads per row when computing scores; each has every quads-th key

var<workgroup> weights: array<vec4f, ROWS * (quads + 1)>; // [ROWS][quads] of four keys; then the row's shrink and highest score
var<workgroup> totals: array<f32, ROWS * quads>;          // a thread's sum of weights

// `at`: index of the row's weights.
fn add_values(sum: vec4f, at: u32, d: u32) -> vec4f {
  var more = sum;
  for (var j = 0u; j < quads; j++) {
    let w = weights[at + j];
    more = fma(vec4f(w.x), value(j, d), more);
    more = fma(vec4f(w.y), value(j + quads, d), more);
    more = fma(vec4f(w.z), value(j + 2 * quads, d), more);
    more = fma(vec4f(w.w), value(j + 3 * quads, d), more);
  }
  return more;
}

// The row's total weight over all keys of the part.
fn weight_of(row: u32) -> f32 {
  var weight = 0.0;
  for (var j = 0u; j < quads; j++) {
    weight += totals[row * quads + j];
  }
  return weight;
}

// Index of a row's head in q and out, in heads. Rows past the end repeat the last one.
fn head_of(tile: vec4<u32>, kv_head: u32, row: u32) -> u32 {
  let flat = tile.z + min(row, tile.w - 1);
  return ((tile.y + flat / params.group) * params.kv_heads + kv_head) * params.group + flat % params.group;
}

// `parts`: number of parts that SPLIT writes.
fn place_in_out(head: u32, part: u32, parts: u32) -> u32 {
  return select(head * dims4, (head * parts + part) * (dims4 + 1), SPLIT);
}
