// Splits a row of qkv: q is rotated and scaled for attention, k is rotated and written to the paged cache, v is written
// as it is. Optionally each head of q and k is normalised first (QK norm). A thread handles 4 pairs (i, i + head_dim/2);
// where half a head is no whole number of vec4s, a vec4 of the head, whose partners it finds one by one. q goes to a
// buffer of its own, because other threads still read the head's qkv for its norm.
// Parts: rope_straddling, step.

struct Params {
  heads: u32,    // query heads
  kv_heads: u32, // KV heads
  layer: u32,    // this layer's index in a block; times the pool's blocks when a block lies in pieces
  layers: u32,   // layers in a block; 1 when it lies in pieces
  scale: f32,    // of scores, such as 1 / sqrt(head_dim), multiplied into q
  eps: f32,      // of the QK norm
}

override WORKGROUP: u32 = 64;   // threads along a row
override HEAD_DIM: u32 = 64;    // values a head, a multiple of 4
override BLOCK_SIZE: u32 = 16;  // slots a block
override KV_F32: bool = false;  // else two halves a u32
override QK_NORM: bool = false; // normalise the heads of q and k

override dims4: u32 = HEAD_DIM / 4; // vec4s a head
override half4: u32 = HEAD_DIM / 8; // vec4s in half a head
override half: u32 = HEAD_DIM / 2;  // pairs
override paired: bool = HEAD_DIM % 8 == 0; // a thread has pairs, else a vec4 of the head
override threads: u32 = select(dims4, half4, paired); // a head

@group(0) @binding(0) var<storage, read> qkv: array<vec4f>;             // [rows][heads + 2 kv_heads][HEAD_DIM / 4]
@group(0) @binding(1) var<storage, read> head_norms: array<vec4f>;      // [q, k][HEAD_DIM / 4]
@group(0) @binding(2) var<storage, read> turns: array<vec4f>;           // [position][cos, sin][half4]
@group(0) @binding(3) var<storage, read> tokens: array<vec4<u32>>;      // [rows]: token id, position, slot, unused
@group(0) @binding(4) var<storage, read_write> q: array<vec4f>;         // [rows][heads][HEAD_DIM / 4]
@group(0) @binding(5) var<storage, read_write> cache: array<vec2<u32>>; // [block][layer] or [layer][block], [k, v][kv head][slot][HEAD_DIM / 4]
@group(0) @binding(6) var<uniform> params: Params;
@group(0) @binding(7) var<uniform> step: Step;

fn store(at: u32, v: vec4f) {
  if (KV_F32) {
    let bits = bitcast<vec4<u32>>(v);
    cache[2 * at] = bits.xy;
    cache[2 * at + 1] = bits.zw;
  } else {
    cache[at] = vec2<u32>(pack2x16float(v.xy), pack2x16float(v.zw));
  }
}

// 1 / RMS of one head.
fn head_scale(base: u32) -> f32 {
  var sum = 0.0;
  for (var i = 0u; i < dims4; i++) {
    sum += dot(qkv[base + i], qkv[base + i]);
  }
  return inverseSqrt(sum / f32(HEAD_DIM) + params.eps);
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let row = id.y;
  let columns = params.heads + 2 * params.kv_heads;
  let head = id.x / threads;
  let i = id.x % threads;
  if (row >= step.rows || head >= columns) {
    return;
  }
  let base = (row * columns + head) * dims4;
  var low = qkv[base + i];
  var high = qkv[base + select(i, i + half4, paired)];
  let is_value = head >= params.heads + params.kv_heads;
  let norm = select(0u, dims4, head >= params.heads);
  var inverse = 1.0;
  if (QK_NORM && !is_value) {
    inverse = head_scale(base);
  }
  if (!is_value && !paired) {
    low = turned_vec4(base, norm, inverse, tokens[row].y, i);
  } else if (!is_value) {
    if (QK_NORM) {
      low = low * inverse * head_norms[norm + i];
      high = high * inverse * head_norms[norm + i + half4];
    }
    let turn = tokens[row].y * dims4 + i;
    let cos = turns[turn];
    let sin = turns[turn + half4];
    let turned = fma(low, cos, -(high * sin));
    high = fma(high, cos, low * sin);
    low = turned;
  }
  if (head < params.heads) {
    let at = (row * params.heads + head) * dims4 + i;
    q[at] = low * params.scale;
    if (paired) {
      q[at + half4] = high * params.scale;
    }
    return;
  }
  let kv_head = (head - params.heads) % params.kv_heads;
  let plane = select(0u, 1u, is_value);
  let slot = tokens[row].z;
  let head_slots = ((slot / BLOCK_SIZE * params.layers + params.layer) * 2 + plane) * params.kv_heads + kv_head;
  let at = (head_slots * BLOCK_SIZE + slot % BLOCK_SIZE) * dims4 + i;
  store(at, low);
  if (paired) {
    store(at + half4, high);
  }
}
