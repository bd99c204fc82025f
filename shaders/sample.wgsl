// Chooses a token from each row of logits and digests the row. A workgroup a row.
// temperature 0: the largest logit, the lowest id of equals. Otherwise top-k (all that equal the k-th stay), then top-p
// (the fewest largest that reach p, all that equal the last stay), then the first id at which the sum of weights passes
// draw * total. Forbidden tokens are never chosen. The digest covers the row as it is, in no particular order.

struct Params {
  vocab: u32,   // tokens
  stride: u32,  // a row of logits, values
}

struct Row {
  draw: f32,            // in [0, 1), from (seed, output index) alone
  temperature: f32,     // 0: greedy
  top_p: f32,           // 1: all
  top_k: u32,           // 0: all
  forbidden_start: u32, // in forbidden
  forbidden_count: u32,
  unused0: u32,
  unused1: u32,
}

override WORKGROUP: u32 = 64; // threads a row, a power of two

@group(0) @binding(0) var<storage, read> logits: array<f32>;           // [rows][stride]
@group(0) @binding(1) var<storage, read> rows: array<Row>;             // [rows]
@group(0) @binding(2) var<storage, read> forbidden: array<u32>;        // token ids
@group(0) @binding(3) var<storage, read_write> out: array<vec4<u32>>;  // [rows]: token, digest low, digest high, unused
@group(0) @binding(4) var<uniform> params: Params;

var<workgroup> floats: array<f32, WORKGROUP>;
var<workgroup> words: array<vec4<u32>, WORKGROUP>; // key, token, digest low, digest high
var<private> thread: u32;
var<private> base: u32; // where the row begins

const nothing = 0xffffffffu;

// Unsigned integers in the order of the floats.
fn ordered(v: f32) -> u32 {
  let bits = bitcast<u32>(v);
  return select(bits | 0x80000000u, ~bits, (bits & 0x80000000u) != 0);
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

fn weight(row: Row, token: u32, lowest: u32, highest: f32) -> f32 {
  let v = logits[base + token];
  if (ordered(v) < lowest || !allowed(row, token)) {
    return 0.0;
  }
  return exp((v - highest) / row.temperature);
}

// The sum of weights, or the number, of allowed tokens with a key of at least `lowest`.
fn kept(row: Row, lowest: u32, highest: f32, count: bool) -> f32 {
  var mine = 0.0;
  for (var i = thread; i < params.vocab; i += WORKGROUP) {
    if (!count) {
      mine += weight(row, i, lowest, highest);
    } else if (ordered(logits[base + i]) >= lowest && allowed(row, i)) {
      mine += 1.0;
    }
  }
  workgroupBarrier();
  floats[thread] = mine;
  workgroupBarrier();
  for (var half = WORKGROUP / 2; half > 0; half /= 2) {
    if (thread < half) {
      floats[thread] += floats[thread + half];
    }
    workgroupBarrier();
  }
  return workgroupUniformLoad(&floats[0]);
}

// The largest key in [lowest, top] of which at least `wanted` is kept; `lowest` when there is none.
fn threshold(row: Row, lowest: u32, top: u32, wanted: f32, highest: f32, count: bool) -> u32 {
  var low = lowest;
  var high = top;
  while (low < high) {
    let middle = low + (high - low) / 2 + ((high - low) & 1);
    if (kept(row, middle, highest, count) >= wanted) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// The first token at which the sum of weights passes draw * total. Every thread sums a run of ids, then one walks.
fn draw_token(row: Row, lowest: u32, highest: f32) -> u32 {
  let run = (params.vocab + WORKGROUP - 1) / WORKGROUP;
  var mine = 0.0;
  for (var i = thread * run; i < min(thread * run + run, params.vocab); i++) {
    mine += weight(row, i, lowest, highest);
  }
  workgroupBarrier();
  floats[thread] = mine;
  workgroupBarrier();
  if (thread > 0) {
    return nothing;
  }
  var total = 0.0;
  for (var t = 0u; t < WORKGROUP; t++) {
    total += floats[t];
  }
  let target_sum = row.draw * total;
  var before = 0.0;
  var token = nothing;
  for (var t = 0u; t < WORKGROUP; t++) {
    if (floats[t] > 0 && (before + floats[t] > target_sum || token == nothing)) {
      var sum = before;
      for (var i = t * run; i < min(t * run + run, params.vocab); i++) {
        let w = weight(row, i, lowest, highest);
        sum += w;
        if (w > 0) {
          token = i;
          if (sum > target_sum) {
            break;
          }
        }
      }
      if (sum > target_sum) {
        break;
      }
    }
    before += floats[t];
  }
  return token;
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
  thread = index;
  base = group.x * params.stride;
  let row = rows[group.x];

  var best = vec4<u32>(0, nothing, 0, 0);
  for (var i = thread; i < params.vocab; i += WORKGROUP) {
    let v = logits[base + i];
    let bits = bitcast<u32>(v);
    let hash = mix(bits ^ mix(i));
    let key = ordered(v);
    let better = (key > best.x || best.y == nothing) && allowed(row, i);
    best = vec4(select(best.xy, vec2(key, i), better), best.z + hash, best.w + mix(hash + 0x9e3779b9u));
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
    var lowest = 0u;
    if (row.top_k > 0) {
      lowest = threshold(row, 0, top.x, f32(row.top_k), highest, true);
    }
    if (row.top_p < 1) {
      let wanted = row.top_p * kept(row, lowest, highest, false);
      lowest = threshold(row, lowest, top.x, wanted, highest, false);
    }
    token = draw_token(row, lowest, highest);
  }
  if (thread == 0) {
    out[group.x] = vec4(token, top.z, top.w, 0);
  }
}
