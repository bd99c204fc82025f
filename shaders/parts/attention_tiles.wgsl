// Copies tiles of keys, then of values, from the paged cache to workgroup memory (attention_blocked.wgsl).

const THREADS = 128u;

override KEYS: u32 = 32;                                          // keys per tile, a power of two; a tile must fit 8 KiB
override each: u32 = (KEYS * dims4 + THREADS - 1) / THREADS;      // vec4s of a tile that a thread copies, at most 4

var<workgroup> kept: array<vec4f, dims4 * (KEYS + 1)>; // keys: [dims4][KEYS], one vec4 of padding per row; values: [KEYS][dims4]
var<workgroup> places: array<u32, KEYS>;               // indexes of the next tile's keys

// The keys that a tile of rows may see, in one block table and KV head.
struct Keys {
  table: u32,
  kv_head: u32,
  first: u32,
  last: u32,
}

fn keys_of(tile: vec4<u32>, kv_head: u32) -> Keys {
  let last = tile.y + (tile.z + tile.w - 1) / params.group;
  return Keys(tile.x, kv_head, first_key(tokens[tile.y + tile.z / params.group].y), tokens[last].y);
}

// As stored in the cache: four halves, or four f32.
struct Raw {
  r0: vec4<u32>,
  r1: vec4<u32>,
  r2: vec4<u32>,
  r3: vec4<u32>,
}

// Index of one of the tile's keys. Past either end: the nearest key.
fn place_of(keys: Keys, start: u32, thread: u32) -> u32 {
  return key_at(keys.table, clamp(start + thread % KEYS, keys.first, keys.last), keys.kv_head);
}

fn set_place(place: u32, thread: u32) {
  if (thread < KEYS) {
    places[thread] = place;
  }
}

fn fetch_one(i: u32, offset: u32, thread: u32) -> vec4<u32> {
  let one = min(i * THREADS + thread, KEYS * dims4 - 1);
  let at = places[one / dims4] + one % dims4 + offset;
  if (KV_F32) {
    return vec4<u32>(cache[2 * at], cache[2 * at + 1]);
  }
  return vec4<u32>(cache[at], 0, 0);
}

// `offset`: distance from a key to the vec4s to fetch, 0 or value_offset().
fn fetch(offset: u32, thread: u32) -> Raw {
  var raw = Raw(fetch_one(0, offset, thread), vec4<u32>(), vec4<u32>(), vec4<u32>());
  if (each > 1) {
    raw.r1 = fetch_one(1, offset, thread);
  }
  if (each > 2) {
    raw.r2 = fetch_one(2, offset, thread);
    raw.r3 = fetch_one(3, offset, thread);
  }
  return raw;
}

fn number(raw: vec4<u32>) -> vec4f {
  if (KV_F32) {
    return bitcast<vec4f>(raw);
  }
  return vec4f(unpack2x16float(raw.x), unpack2x16float(raw.y));
}

fn keep_key(i: u32, raw: vec4<u32>, thread: u32) {
  let one = i * THREADS + thread;
  if (i < each && one < KEYS * dims4) {
    kept[one % dims4 * (KEYS + 1) + one / dims4] = number(raw);
  }
}

fn keep_keys(raw: Raw, thread: u32) {
  keep_key(0, raw.r0, thread);
  keep_key(1, raw.r1, thread);
  keep_key(2, raw.r2, thread);
  keep_key(3, raw.r3, thread);
}

fn keep_value(i: u32, raw: vec4<u32>, keys: Keys, start: u32, thread: u32) {
  let one = i * THREADS + thread;
  if (i < each && one < KEYS * dims4) {
    kept[one] = select(vec4f(), number(raw), start + one / dims4 <= keys.last);
  }
}

fn keep_values(raw: Raw, keys: Keys, start: u32, thread: u32) {
  keep_value(0, raw.r0, keys, start, thread);
  keep_value(1, raw.r1, keys, start, thread);
  keep_value(2, raw.r2, keys, start, thread);
  keep_value(3, raw.r3, keys, start, thread);
}

fn add_product(sum: f32, x: vec4f, k: vec4f) -> f32 {
  return fma(x.w, k.w, fma(x.z, k.z, fma(x.y, k.y, fma(x.x, k.x, sum))));
}

// Products of four dimensions of a row with those of four keys.
fn add_products(sum: vec4f, x: vec4f, k0: u32, k1: u32, k2: u32, k3: u32) -> vec4f {
  return vec4f(
    add_product(sum.x, x, kept[k0]),
    add_product(sum.y, x, kept[k1]),
    add_product(sum.z, x, kept[k2]),
    add_product(sum.w, x, kept[k3]),
  );
}

fn value(key: u32, d: u32) -> vec4f {
  return kept[key * dims4 + d];
}
