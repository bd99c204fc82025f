// Splits each row of qkv: q is rotated and scaled for attention, k is rotated and written to the paged cache, and v is
// written unchanged. With QK_NORM, each head of q and k is normalised first.
// A thread handles 4 pairs (i, i + head_dim/2). If half a head is not a whole number of vec4s, it handles one vec4 of
// the head and finds the partners one by one. q goes to a separate buffer, because other threads still read the head's
// qkv for its norm.
// Parts: rope_store, rope_straddling, step.

override WORKGROUP: u32 = 64;   // threads along a row
override QK_NORM: bool = false; // normalise the heads of q and k

override half: u32 = HEAD_DIM / 2;  // pairs
override paired: bool = HEAD_DIM % 8 == 0; // whether a thread has 4 pairs, else a vec4 of the head
override threads: u32 = select(dims4, half4, paired); // per head

@group(0) @binding(0) var<storage, read> qkv: array<vec4f>;             // [rows][heads + 2 kv_heads][HEAD_DIM / 4]
@group(0) @binding(1) var<storage, read> head_norms: array<vec4f>;      // [q, k][HEAD_DIM / 4]
@group(0) @binding(2) var<storage, read> turns: array<vec4f>;           // [position][cos, sin][half4]
@group(0) @binding(3) var<storage, read> tokens: array<vec4<u32>>;      // [rows]: token id, position, slot, unused
@group(0) @binding(4) var<storage, read_write> q: array<vec4f>;         // [rows][heads][HEAD_DIM / 4]
@group(0) @binding(5) var<storage, read_write> cache: array<vec2<u32>>; // [block][layer] or [layer][block], [k, v][kv head][slot][HEAD_DIM / 4]
@group(0) @binding(6) var<uniform> rope: RopeParams;
@group(0) @binding(7) var<uniform> step: Step;

// 1 / RMS of one head.
fn head_scale(base: u32) -> f32 {
  var sum = 0.0;
  for (var i = 0u; i < dims4; i++) {
    sum += dot(qkv[base + i], qkv[base + i]);
  }
  return inverseSqrt(sum / f32(HEAD_DIM) + rope.eps);
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let row = id.y;
  let columns = rope.heads + 2 * rope.kv_heads;
  let head = id.x / threads;
  let i = id.x % threads;
  if (row >= step.rows || head >= columns) {
    return;
  }
  let base = (row * columns + head) * dims4;
  let norm = select(0u, dims4, head >= rope.heads);
  let normalise = QK_NORM && !is_value(head);
  var inverse = 1.0;
  if (normalise) {
    inverse = head_scale(base);
  }
  if (!paired) {
    if (is_value(head)) {
      store_part(row, head, i, qkv[base + i]);
    } else {
      store_part(row, head, i, turned_vec4(base, norm, inverse, tokens[row].y, i));
    }
    return;
  }
  var low = qkv[base + i];
  var high = qkv[base + i + half4];
  if (normalise) {
    low = low * inverse * head_norms[norm + i];
    high = high * inverse * head_norms[norm + i + half4];
  }
  store_turned(row, head, i, low, high);
}
