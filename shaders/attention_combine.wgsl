// out[row][head] = the parts of a context that attention wrote with SPLIT, added up in order. A thread a vec4 of a head.
// The order of sums is that of attention.wgsl and attention_portable.wgsl without SPLIT, to the bit.
// Parts: running_softmax, step.

struct Params {
  heads: u32,  // query heads
  dims4: u32,  // head_dim / 4, vec4s
  window: u32, // keys that a row sees at most, its own included; of full attention 2^31 - 1
}

override WORKGROUP: u32 = 64; // threads
override PART: u32 = 256;     // keys a part

@group(0) @binding(0) var<storage, read> parts: array<vec4f>;       // [rows][heads][parts that a row may see][dims4 + 1]: sum; highest score, total weight
@group(0) @binding(1) var<storage, read> tokens: array<vec4<u32>>;  // [rows]: token id, position, slot, unused
@group(0) @binding(2) var<storage, read_write> out: array<vec4f>;   // [rows][heads][dims4]
@group(0) @binding(3) var<uniform> params: Params;
@group(0) @binding(4) var<uniform> step: Step;

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
  var at = head * min(longest / PART + 1, (params.window + PART - 2) / PART + 1) * stride;
  var highest = lowest;
  var total = 0.0;
  var sum = vec4f();
  let position = tokens[id.y].y;
  let first = position + 1 - min(position + 1, params.window);
  for (var part = first / PART; part <= position / PART; part++) {
    let found = parts[at + params.dims4];
    let top = max(highest, found.x);
    let old = shrunk(highest, top);
    let fresh = shrunk(found.x, top);
    highest = top;
    total = fma(total, old, found.y * fresh);
    sum = fma(sum, vec4f(old), parts[at + id.x % params.dims4] * fresh);
    at += stride;
  }
  out[id.y * width + id.x] = sum / total;
}
