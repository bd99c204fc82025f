// out[row][head] = the parts of a context that attention wrote with SPLIT, added in order. One thread per vec4 of a
// head.
// The order of summation is that of the attention kernel without SPLIT, to the bit.
// Parts: running_softmax, step.

struct Params {
  heads: u32,  // query heads
  dims4: u32,  // head_dim / 4, vec4s
  window: u32, // most keys that a row sees, including its own; 2^31 - 1 for full attention
}

override WORKGROUP: u32 = 64; // threads
override PART: u32 = 256;     // keys per part

@group(0) @binding(0) var<storage, read> parts: array<vec4f>;       // [rows][heads][parts that a row may see][dims4 + 1]: sum; highest score, total weight
@group(0) @binding(1) var<storage, read> tokens: array<vec4<u32>>;  // [rows]: token id, position, slot, unused
@group(0) @binding(2) var<storage, read_write> out: array<vec4f>;   // [rows][heads][dims4]
@group(0) @binding(3) var<uniform> params: Params;
@group(0) @binding(4) var<uniform> step: Step;

// Relative to the highest score so far.
struct Sums {
  highest: f32,
  total: f32,
  sum: vec4f,
}

// `found`: a part's highest score and total weight. `is`: whether the part exists.
fn added(to: Sums, found: vec4f, sum: vec4f, is: bool) -> Sums {
  if (!is) {
    return to;
  }
  let top = max(to.highest, found.x);
  let old = shrunk(to.highest, top);
  let fresh = shrunk(found.x, top);
  return Sums(top, fma(to.total, old, found.y * fresh), fma(to.sum, vec4f(old), sum * fresh));
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let width = params.heads * params.dims4;
  if (id.x >= width) {
    return;
  }
  let head = id.y * params.heads + id.x / params.dims4;
  var longest = 0u;
  for (var row = 0u; row < step.rows; row++) {
    longest = max(longest, tokens[row].y);
  }
  let stride = params.dims4 + 1;
  let at = head * min(longest / PART + 1, (params.window + PART - 2) / PART + 1) * stride;
  let position = tokens[id.y].y;
  let first = position + 1 - min(position + 1, params.window);
  let count = position / PART - first / PART + 1;
  let d = id.x % params.dims4;
  var sums = Sums(lowest, 0.0, vec4f());
  // Four parts are loaded at once, so that their loads overlap.
  for (var part = 0u; part < count; part += 4) {
    let at0 = at + part * stride;
    let at1 = at + min(part + 1, count - 1) * stride;
    let at2 = at + min(part + 2, count - 1) * stride;
    let at3 = at + min(part + 3, count - 1) * stride;
    let found0 = parts[at0 + params.dims4];
    let found1 = parts[at1 + params.dims4];
    let found2 = parts[at2 + params.dims4];
    let found3 = parts[at3 + params.dims4];
    let sum0 = parts[at0 + d];
    let sum1 = parts[at1 + d];
    let sum2 = parts[at2 + d];
    let sum3 = parts[at3 + d];
    sums = added(sums, found0, sum0, true);
    sums = added(sums, found1, sum1, part + 1 < count);
    sums = added(sums, found2, sum2, part + 2 < count);
    sums = added(sums, found3, sum3, part + 3 < count);
  }
  out[id.y * width + id.x] = sums.sum / sums.total;
}
