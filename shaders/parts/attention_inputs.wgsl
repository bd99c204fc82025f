// Inputs and outputs of every attention kernel, and the location of a key in the paged cache.
// Masked scores are replaced by select, so the memory's content does not matter. Parts of PART keys, at fixed
// positions, are each summed from zero and then added in order: by the same workgroup, or with SPLIT by
// attention_combine.wgsl after one workgroup per part has written them. Both use the same order.

struct Params {
  layer: u32,    // this layer's index in a block; times the pool's blocks if a block consists of pieces
  layers: u32,   // layers in a block; 1 if a block consists of pieces
  kv_heads: u32, // KV heads
  group: u32,    // query heads per KV head
  dims4: u32,    // HEAD_DIM / 4; a uniform, like lanes, so that loops are not unrolled, which would take seconds to compile
  lanes: u32,    // SUBGROUP of attention.wgsl
  window: u32,   // most keys that a row sees, including its own; 2^31 - 1 for full attention
}

override HEAD_DIM: u32 = 64;        // values per head, a multiple of 4
override BLOCK_SIZE: u32 = 16;      // slots per block
override KV_F32: bool = false;      // else two halves per u32
override PART: u32 = 256;           // keys per part, a multiple of every subgroup size
override SPLIT: bool = false;       // write one part only: part workgroup.z, counted from the first that the row sees
override dims4: u32 = HEAD_DIM / 4; // vec4s per head

@group(0) @binding(0) var<storage, read> q: array<vec4f>;           // [rows][heads][dims4], scaled
@group(0) @binding(1) var<storage, read> cache: array<vec2<u32>>;   // [block][layer] or [layer][block], [k, v][kv head][slot][dims4]
@group(0) @binding(2) var<storage, read> tokens: array<vec4<u32>>;  // [rows]: token id, position, slot, unused
@group(0) @binding(3) var<storage, read> tiles: array<vec4<u32>>;   // start of the block table, first row of the sequence, first flattened row, count
@group(0) @binding(4) var<storage, read> tables: array<u32>;        // block tables, concatenated
@group(0) @binding(5) var<storage, read_write> out: array<vec4f>;   // [rows][heads][dims4]; SPLIT: [rows][heads][parts][dims4 + 1]
@group(0) @binding(6) var<uniform> params: Params;

fn load(at: u32) -> vec4f {
  if (KV_F32) {
    return bitcast<vec4f>(vec4<u32>(cache[2 * at], cache[2 * at + 1]));
  }
  let halves = cache[at];
  return vec4f(unpack2x16float(halves.x), unpack2x16float(halves.y));
}

// Index of a key in the cache.
fn key_at(table: u32, key: u32, kv_head: u32) -> u32 {
  let block = tables[table + key / BLOCK_SIZE];
  let k_head = (block * params.layers + params.layer) * 2 * params.kv_heads + kv_head;
  return (k_head * BLOCK_SIZE + key % BLOCK_SIZE) * dims4;
}

// The first key that the row at this position sees.
fn first_key(position: u32) -> u32 {
  return position + 1 - min(position + 1, params.window);
}

// Distance from a key to its value.
fn value_offset() -> u32 {
  return params.kv_heads * BLOCK_SIZE * dims4;
}
