// Chooses a token from each row of logits, and computes a digest of the row. One workgroup per row.
// Temperature 0 takes the largest logit; among equals, the lowest id. Otherwise top-k applies first (all that equal the
// k-th are kept), then top-p (the fewest largest that reach p; all that equal the last are kept). The result is the
// first id at which the running sum of weights exceeds draw * total. Forbidden tokens are never chosen.
// The digest covers the unmodified row and does not depend on the order of threads.
// Parts: sample_weights.

struct Params {
  vocab: u32,   // tokens
  stride: u32,  // values per row of logits
}

struct Row {
  draw: f32,            // in [0, 1), from (seed, output index) only
  temperature: f32,     // 0: greedy
  top_p: f32,           // 1: all
  top_k: u32,           // 0: all
  forbidden_start: u32, // index in forbidden
  forbidden_count: u32,
  unused0: u32,
  unused1: u32,
}

override WORKGROUP: u32 = 64; // threads per row, a power of two

@group(0) @binding(0) var<storage, read> logits: array<f32>;           // [rows][stride]
@group(0) @binding(1) var<storage, read> rows: array<Row>;             // [rows]
@group(0) @binding(2) var<storage, read> forbidden: array<u32>;        // token ids
@group(0) @binding(3) var<storage, read_write> out: array<vec4<u32>>;  // [rows]: token, digest low, digest high, unused
@group(0) @binding(4) var<uniform> params: Params;

var<workgroup> words: array<vec4<u32>, WORKGROUP>; // key, token, digest low, digest high
var<private> thread: u32;
var<private> base: u32; // index of the row's first logit

const nothing = 0xffffffffu;

// Maps floats to unsigned integers in the same order. 0 and -0 are equal.
fn ordered(v: f32) -> u32 {
  let raw = bitcast<u32>(v);
  let bits = select(raw, 0u, raw == 0x80000000u);
  return select(bits | 0x80000000u, ~bits, (bits & 0x80000000u) != 0);
}

// NaN has no place in the order, so it is never chosen.
fn is_number(v: f32) -> bool {
  return (bitcast<u32>(v) & 0x7fffffffu) <= 0x7f800000u;
}

fn mix(x: u32) -> u32 {
  var h = (x ^ (x >> 16)) * 0x21f0aaadu;
  h = (h ^ (h >> 15)) * 0x735a2d97u;
  return h ^ (h >> 15);
}

fn allowed(row: Row, token: u32) -> bool {
  for (var i = 0u; i < row.forbidden_count; i++) {
    if (forbidden[row.forbidden_start + i] == token) {
      return false;
    }
  }
  return true;
}

// The better of `best` and another token, with the digests of both added. Past the end: `best`.
fn better_of(best: vec4<u32>, row: Row, token: u32, v: f32) -> vec4<u32> {
  if (token >= params.vocab) {
    return best;
  }
  let bits = bitcast<u32>(v);
  let hash = mix(bits ^ mix(token));
  let key = ordered(v);
  let better = (key > best.x || best.y == nothing) && is_number(v) && allowed(row, token);
  return vec4(select(best.xy, vec2(key, token), better), best.z + hash, best.w + mix(hash + 0x9e3779b9u));
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
  thread = index;
  base = group.x * params.stride;
  let row = rows[group.x];

  var best = vec4<u32>(0, nothing, 0, 0);
  // Four values are loaded at once, so that their loads overlap.
  for (var i = thread; i < params.vocab; i += 4 * WORKGROUP) {
    let last = params.vocab - 1;
    let v0 = logits[base + i];
    let v1 = logits[base + min(i + WORKGROUP, last)];
    let v2 = logits[base + min(i + 2 * WORKGROUP, last)];
    let v3 = logits[base + min(i + 3 * WORKGROUP, last)];
    best = better_of(best, row, i, v0);
    best = better_of(best, row, i + WORKGROUP, v1);
    best = better_of(best, row, i + 2 * WORKGROUP, v2);
    best = better_of(best, row, i + 3 * WORKGROUP, v3);
  }
  words[thread] = best;
  workgroupBarrier();
  for (var half = WORKGROUP / 2; half > 0; half /= 2) {
    if (thread < half) {
      let mine = words[thread];
      let other = words[thread + half];
      let better = other.y != nothing &&
        (mine.y == nothing || other.x > mine.x || (other.x == mine.x && other.y < mine.y));
      words[thread] = vec4(select(mine.xy, other.xy, better), mine.zw + other.zw);
    }
    workgroupBarrier();
  }
  let top = workgroupUniformLoad(&words[0]);

  var token = top.y;
  if (row.temperature > 0 && top.y != nothing) {
    let highest = logits[base + top.y];
    let lowest = least_kept(row, top.x, highest);
    token = draw_token(row, lowest, highest);
  }
  if (thread == 0) {
    out[group.x] = vec4(token, top.z, top.w, 0);
  }
}
