// Stores a head's values: q, scaled, in a separate buffer; K and V in the paged cache.

struct RopeParams {
  heads: u32,    // query heads
  kv_heads: u32, // KV heads
  layer: u32,    // this layer's index in a block; times the pool's blocks if a block consists of pieces
  layers: u32,   // layers in a block; 1 if a block consists of pieces
  scale: f32,    // of scores, such as 1 / sqrt(head_dim); multiplied into q
  eps: f32,      // for the QK norm
}

override HEAD_DIM: u32 = 64;        // values per head, a multiple of 4
override BLOCK_SIZE: u32 = 16;      // slots per block
override KV_F32: bool = false;      // else two halves per u32
override dims4: u32 = HEAD_DIM / 4; // vec4s per head
override half4: u32 = HEAD_DIM / 8; // vec4s per half head

fn is_value(head: u32) -> bool {
  return head >= rope.heads + rope.kv_heads;
}

// Stores vec4 i of a head. Heads are numbered across q, K, then V.
fn store_part(row: u32, head: u32, i: u32, v: vec4f) {
  if (head < rope.heads) {
    q[(row * rope.heads + head) * dims4 + i] = v * rope.scale;
    return;
  }
  let kv_head = (head - rope.heads) % rope.kv_heads;
  let plane = select(0u, 1u, is_value(head));
  let slot = tokens[row].z;
  let head_slots = ((slot / BLOCK_SIZE * rope.layers + rope.layer) * 2 + plane) * rope.kv_heads + kv_head;
  let at = (head_slots * BLOCK_SIZE + slot % BLOCK_SIZE) * dims4 + i;
  if (KV_F32) {
    let bits = bitcast<vec4<u32>>(v);
    cache[2 * at] = bits.xy;
    cache[2 * at + 1] = bits.zw;
  } else {
    cache[at] = vec2<u32>(pack2x16float(v.xy), pack2x16float(v.zw));
  }
}

// Stores vec4s i and i + half4 of a head, rotated for q and K.
fn store_turned(row: u32, head: u32, i: u32, low: vec4f, high: vec4f) {
  var first = low;
  var second = high;
  if (!is_value(head)) {
    let turn = tokens[row].y * dims4 + i;
    let cos = turns[turn];
    let sin = turns[turn + half4];
    first = fma(low, cos, -(high * sin));
    second = fma(high, cos, low * sin);
  }
  store_part(row, head, i, first);
  store_part(row, head, i + half4, second);
}
