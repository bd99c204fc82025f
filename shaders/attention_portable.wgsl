// out[row][head] = softmax(q K^T) V over a sequence's keys in the paged cache, up to the row's own position (causal), for
// adapters without a fixed subgroup size. A workgroup serves up to 4 flattened rows (token, query head of one KV head) of
// one sequence, a vec4 holding the same thing of each. Keys come in tiles of 4 a thread, from position 0 up: a thread
// owns 4 keys for the scores, then 4 head dimensions for the weighted sum of values.
// Masked scores are selected away, and values of slots not yet written are not read.

struct Params {
  layer: u32,    // this layer's index in a block; times the pool's blocks when a block lies in pieces
  layers: u32,   // layers in a block; 1 when it lies in pieces
  kv_heads: u32, // KV heads
  group: u32,    // query heads a KV head
  dims4: u32,    // for the other form
  lanes: u32,    // for the other form
}

override HEAD_DIM: u32 = 64;   // values a head, a multiple of 4
override BLOCK_SIZE: u32 = 16; // slots a block
override KV_F32: bool = false; // else two halves a u32
override threads: u32 = HEAD_DIM / 4;
override tile_keys: u32 = 4 * threads;

const lowest = vec4f(-3.0e38); // below any score

@group(0) @binding(0) var<storage, read> q: array<vec4f>;           // [rows][heads][HEAD_DIM / 4], scaled
@group(0) @binding(1) var<storage, read> cache: array<vec2<u32>>;   // [block][layer] or [layer][block], [k, v][kv head][slot][HEAD_DIM / 4]
@group(0) @binding(2) var<storage, read> tokens: array<vec4<u32>>;  // [rows]: token id, position, slot, unused
@group(0) @binding(3) var<storage, read> tiles: array<vec4<u32>>;   // block table's start, first row of the sequence, first flattened row, count
@group(0) @binding(4) var<storage, read> tables: array<u32>;        // block tables, one after the other
@group(0) @binding(5) var<storage, read_write> out: array<vec4f>;   // [rows][heads][HEAD_DIM / 4]
@group(0) @binding(6) var<uniform> params: Params;

var<workgroup> queries: array<vec4f, HEAD_DIM>;   // by dimension
var<workgroup> weights: array<vec4f, tile_keys>;  // by key of the tile
var<workgroup> value_at: array<u32, tile_keys>;   // by key of the tile
var<workgroup> partial: array<vec4f, threads>;    // by thread

fn load(at: u32) -> vec4f {
  if (KV_F32) {
    return bitcast<vec4f>(vec4<u32>(cache[2 * at], cache[2 * at + 1]));
  }
  let halves = cache[at];
  return vec4f(unpack2x16float(halves.x), unpack2x16float(halves.y));
}

// Where a key begins in the cache.
fn key_at(table: u32, key: u32, kv_head: u32) -> u32 {
  let block = tables[table + key / BLOCK_SIZE];
  let k_head = (block * params.layers + params.layer) * 2 * params.kv_heads + kv_head;
  return (k_head * BLOCK_SIZE + key % BLOCK_SIZE) * threads;
}

fn add_products(sum: vec4f, k: vec4f, x0: vec4f, x1: vec4f, x2: vec4f, x3: vec4f) -> vec4f {
  return fma(vec4f(k.w), x3, fma(vec4f(k.z), x2, fma(vec4f(k.y), x1, fma(vec4f(k.x), x0, sum))));
}

@compute @workgroup_size(threads)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let tile = tiles[workgroup.x];
  let kv_head = workgroup.y;
  // Rows past the end repeat the last one.
  let flat = tile.z + min(vec4<u32>(0, 1, 2, 3), vec4(tile.w - 1));
  let token = tile.y + flat / params.group;
  let head = ((token * params.kv_heads + kv_head) * params.group + flat % params.group) * threads;
  let position = vec4(tokens[token.x].y, tokens[token.y].y, tokens[token.z].y, tokens[token.w].y);
  let last = position.w;

  let q0 = q[head.x + thread];
  let q1 = q[head.y + thread];
  let q2 = q[head.z + thread];
  let q3 = q[head.w + thread];
  queries[4 * thread] = vec4(q0.x, q1.x, q2.x, q3.x);
  queries[4 * thread + 1] = vec4(q0.y, q1.y, q2.y, q3.y);
  queries[4 * thread + 2] = vec4(q0.z, q1.z, q2.z, q3.z);
  queries[4 * thread + 3] = vec4(q0.w, q1.w, q2.w, q3.w);
  workgroupBarrier();

  var highest = lowest;
  var total = vec4f(); // this thread's keys' part of the sum of weights
  var sum0 = vec4f();  // of row 0, this thread's dimensions
  var sum1 = vec4f();
  var sum2 = vec4f();
  var sum3 = vec4f();
  for (var start = 0u; start <= last; start += tile_keys) {
    let key = start + 4 * thread;
    let at0 = key_at(tile.x, min(key, last), kv_head);
    let at1 = key_at(tile.x, min(key + 1, last), kv_head);
    let at2 = key_at(tile.x, min(key + 2, last), kv_head);
    let at3 = key_at(tile.x, min(key + 3, last), kv_head);
    var score0 = vec4f();
    var score1 = vec4f();
    var score2 = vec4f();
    var score3 = vec4f();
    for (var d = 0u; d < threads; d++) {
      let x0 = queries[4 * d];
      let x1 = queries[4 * d + 1];
      let x2 = queries[4 * d + 2];
      let x3 = queries[4 * d + 3];
      score0 = add_products(score0, load(at0 + d), x0, x1, x2, x3);
      score1 = add_products(score1, load(at1 + d), x0, x1, x2, x3);
      score2 = add_products(score2, load(at2 + d), x0, x1, x2, x3);
      score3 = add_products(score3, load(at3 + d), x0, x1, x2, x3);
    }
    let seen0 = vec4(key) <= position;
    let seen1 = vec4(key + 1) <= position;
    let seen2 = vec4(key + 2) <= position;
    let seen3 = vec4(key + 3) <= position;
    score0 = select(lowest, score0, seen0);
    score1 = select(lowest, score1, seen1);
    score2 = select(lowest, score2, seen2);
    score3 = select(lowest, score3, seen3);
    partial[thread] = max(max(score0, score1), max(score2, score3));
    workgroupBarrier();
    var top = highest;
    for (var t = 0u; t < threads; t++) {
      top = max(top, partial[t]);
    }
    let shrink = select(exp(highest - top), vec4f(1), highest == top); // exactly 1 where nothing is seen
    highest = top;
    score0 = select(vec4f(), exp(score0 - top), seen0);
    score1 = select(vec4f(), exp(score1 - top), seen1);
    score2 = select(vec4f(), exp(score2 - top), seen2);
    score3 = select(vec4f(), exp(score3 - top), seen3);
    total = fma(total, shrink, (score0 + score1) + (score2 + score3));
    weights[4 * thread] = score0;
    weights[4 * thread + 1] = score1;
    weights[4 * thread + 2] = score2;
    weights[4 * thread + 3] = score3;
    let plane = params.kv_heads * BLOCK_SIZE * threads;
    value_at[4 * thread] = at0 + plane;
    value_at[4 * thread + 1] = at1 + plane;
    value_at[4 * thread + 2] = at2 + plane;
    value_at[4 * thread + 3] = at3 + plane;
    sum0 *= shrink.x;
    sum1 *= shrink.y;
    sum2 *= shrink.z;
    sum3 *= shrink.w;
    workgroupBarrier();
    for (var j = 0u; j < min(tile_keys, last + 1 - start); j++) {
      let v = load(value_at[j] + thread);
      let w = weights[j];
      sum0 = fma(vec4f(w.x), v, sum0);
      sum1 = fma(vec4f(w.y), v, sum1);
      sum2 = fma(vec4f(w.z), v, sum2);
      sum3 = fma(vec4f(w.w), v, sum3);
    }
    // The next tile's maxima go where these were, its weights and places only after another barrier.
  }
  workgroupBarrier();
  partial[thread] = total;
  workgroupBarrier();
  total = vec4f();
  for (var t = 0u; t < threads; t++) {
    total += partial[t];
  }
  out[head.x + thread] = sum0 / total.x;
  if (tile.w > 1) {
    out[head.y + thread] = sum1 / total.y;
  }
  if (tile.w > 2) {
    out[head.z + thread] = sum2 / total.z;
  }
  if (tile.w > 3) {
    out[head.w + thread] = sum3 / total.w;
  }
}
