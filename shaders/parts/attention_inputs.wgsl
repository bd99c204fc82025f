// What attention reads and writes, whatever its form, and where a key lies in the paged cache.
// Masked scores are selected away, whatever the memory holds. Parts of PART keys, at fixed positions, are each summed from
// nothing and added up in order: by who computed them, or, with SPLIT, in attention_combine.wgsl after each has been
// written by a workgroup of its own. All add in the same order.

struct Params {
  layer: u32,    // this layer's index in a block; times the pool's blocks when a block lies in pieces
  layers: u32,   // layers in a block; 1 when it lies in pieces
  kv_heads: u32, // KV heads
  group: u32,    // query heads a KV head
  dims4: u32,    // HEAD_DIM / 4; here, like lanes, so that a loop is not unrolled: compilation would take seconds
  lanes: u32,    // SUBGROUP of attention.wgsl
  window: u32,   // keys that a row sees at most, its own included; of full attention 2^31 - 1
}

override HEAD_DIM: u32 = 64;        // values a head, a multiple of 4
override BLOCK_SIZE: u32 = 16;      // slots a block
override KV_F32: bool = false;      // else two halves a u32
override PART: u32 = 256;           // keys a part, a multiple of any subgroup's lanes
override SPLIT: bool = false;       // write one part only: the first that the row sees, or workgroup.z after it
override dims4: u32 = HEAD_DIM / 4; // vec4s a head

@group(0) @binding(0) var<storage, read> q: array<vec4f>;           // [rows][heads][dims4], scaled
@group(0) @binding(1) var<storage, read> cache: array<vec2<u32>>;   // [block][layer] or [layer][block], [k, v][kv head][slot][dims4]
@group(0) @binding(2) var<storage, read> tokens: array<vec4<u32>>;  // [rows]: token id, position, slot, unused
@group(0) @binding(3) var<storage, read> tiles: array<vec4<u32>>;   // block table's start, first row of the sequence, first flattened row, count
@group(0) @binding(4) var<storage, read> tables: array<u32>;        // block tables, one after the other
@group(0) @binding(5) var<storage, read_write> out: array<vec4f>;   // [rows][heads][dims4]; SPLIT: [rows][heads][parts][dims4 + 1]
@group(0) @binding(6) var<uniform> params: Params;

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
  return (k_head * BLOCK_SIZE + key % BLOCK_SIZE) * dims4;
}

// The first key that the row at a position sees.
fn first_key(position: u32) -> u32 {
  return position + 1 - min(position + 1, params.window);
}

// From a key to its value.
fn value_offset() -> u32 {
  return params.kv_heads * BLOCK_SIZE * dims4;
}
