// out[row][head] = softmax(q K^T) V over a sequence's keys in the paged cache, up to the row's own position (causal), for
// adapters without a fixed subgroup size. A thread serves one flattened row (token, query head of one KV head).
// Keys come in tiles of 8 from position 0 up; a thread reads no key past its own row's position.

struct Params {
  layer: u32,        // this layer's index in a block
  layers: u32,       // layers in a block
  kv_heads: u32,     // KV heads
  group: u32,        // query heads a KV head
  dims4: u32,        // for the other form
  lanes: u32,        // for the other form
}

override ROWS: u32 = 8;        // flattened rows a workgroup
override HEAD_DIM: u32 = 64;   // values a head, a multiple of 4, at most 128
override BLOCK_SIZE: u32 = 16; // slots a block
override KV_F32: bool = false; // else two halves a u32
override dims4: u32 = HEAD_DIM / 4;

const tile_keys = 8u;
const lowest = -3.0e38; // below any score

@group(0) @binding(0) var<storage, read> q: array<vec4f>;           // [rows][heads][dims4], scaled
@group(0) @binding(1) var<storage, read> cache: array<vec2<u32>>;   // [block][layer][k, v][kv head][slot][dims4]
@group(0) @binding(2) var<storage, read> tokens: array<vec4<u32>>;  // [rows]: token id, position, slot, unused
@group(0) @binding(3) var<storage, read> tiles: array<vec4<u32>>;   // block table's start, first row of the sequence, first flattened row, count
@group(0) @binding(4) var<storage, read> tables: array<u32>;        // block tables, one after the other
@group(0) @binding(5) var<storage, read_write> out: array<vec4f>;   // [rows][heads][dims4]
@group(0) @binding(6) var<uniform> params: Params;

fn load(at: u32) -> vec4f {
  if (KV_F32) {
    return bitcast<vec4f>(vec4<u32>(cache[2 * at], cache[2 * at + 1]));
  }
  let halves = cache[at];
  return vec4f(unpack2x16float(halves.x), unpack2x16float(halves.y));
}

@compute @workgroup_size(ROWS)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let tile = tiles[workgroup.x];
  if (thread >= tile.w) {
    return;
  }
  let kv_head = workgroup.y;
  let flat = tile.z + thread;
  let token = tile.y + flat / params.group;
  let row = ((token * params.kv_heads + kv_head) * params.group + flat % params.group) * dims4;
  let length = tokens[token].y + 1;

  var highest = lowest;
  var total = 0.0;
  var sum: array<vec4f, 32>;
  for (var start = 0u; start < length; start += tile_keys) {
    let count = min(tile_keys, length - start);
    var score: array<f32, 8>;
    var v_at: array<u32, 8>;
    var top = highest;
    for (var j = 0u; j < count; j++) {
      let key = start + j;
      let block = tables[tile.x + key / BLOCK_SIZE];
      let k_head = (block * params.layers + params.layer) * 2 * params.kv_heads + kv_head;
      let k_at = (k_head * BLOCK_SIZE + key % BLOCK_SIZE) * dims4;
      v_at[j] = k_at + params.kv_heads * BLOCK_SIZE * dims4;
      var s = 0.0;
      for (var d = 0u; d < dims4; d++) {
        let x = q[row + d];
        let k = load(k_at + d);
        s = fma(x.w, k.w, fma(x.z, k.z, fma(x.y, k.y, fma(x.x, k.x, s))));
      }
      score[j] = s;
      top = max(top, s);
    }
    let shrink = exp(highest - top);
    highest = top;
    total *= shrink;
    for (var j = 0u; j < count; j++) {
      score[j] = exp(score[j] - top);
      total += score[j];
    }
    for (var d = 0u; d < dims4; d++) {
      var s = sum[d] * shrink;
      for (var j = 0u; j < count; j++) {
        s = fma(vec4f(score[j]), load(v_at[j] + d), s);
      }
      sum[d] = s;
    }
  }
  for (var d = 0u; d < dims4; d++) {
    out[row + d] = sum[d] / total;
  }
}
