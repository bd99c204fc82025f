// Tiles of weights and of the rows they are multiplied by, on their way through workgroup memory (gemm_streamed.wgsl), two
// at a time.

const COLUMNS = 32u;         // of a workgroup
const DEPTH = 16u;           // vec4s of k in a tile
const STRIDE = 36u;          // more than COLUMNS: threads that write a tile meet in no bank
const THREADS = 128u;
const TILE = DEPTH * STRIDE;
const A_TILE = DEPTH * 8;

var<workgroup> weight_tile: array<vec2<u32>, 2 * TILE>; // twice [DEPTH][STRIDE]: four k of a column; at the end the sums
var<workgroup> a_tile: array<Input, 2 * A_TILE>;        // twice [ROWS][DEPTH]

// What a thread brings of a tile: four k of eight columns, and of one of a's rows.
struct Part {
  k0: vec4<u32>,
  k1: vec4<u32>,
  k2: vec4<u32>,
  k3: vec4<u32>,
  a: vec4f,
  norm: vec4f,
}

// Those that bring weights: where ROWS is 1 not those that sum up.
fn brings(thread: u32) -> bool {
  return thread >= THREADS / 2;
}

// Which vec4 of a's tile a thread brings: the first threads sum up.
fn a_place(thread: u32) -> u32 {
  return (thread + THREADS - COLUMNS) % THREADS;
}

// Past the end the last is read again, and not used. `at`: where the columns begin, and how far apart their rows are.
fn fetch(k: u32, at: vec2<u32>, a_row: u32, thread: u32) -> Part {
  var part: Part;
  if (brings(thread)) {
    let place = at.x + 4 * min(k + thread / 4 % DEPTH, params.inputs4 - 1) * at.y;
    part.k0 = weights[place];
    part.k1 = weights[place + at.y];
    part.k2 = weights[place + 2 * at.y];
    part.k3 = weights[place + 3 * at.y];
  }
  if (a_place(thread) < ROWS * DEPTH) {
    let a_k = min(k + thread % DEPTH, params.inputs4 - 1);
    part.a = a[a_row + a_k];
    if (NORM) {
      part.norm = norm[a_k];
    }
  }
  return part;
}

// Four k of two columns that lie side by side.
fn keep_two(to: u32, k0: u32, k1: u32, k2: u32, k3: u32) {
  weight_tile[to] = vec2((k0 & 0xffff) | (k1 << 16), (k2 & 0xffff) | (k3 << 16));
  weight_tile[to + 4] = vec2((k0 >> 16) | (k1 & 0xffff0000), (k2 >> 16) | (k3 & 0xffff0000));
}

// A column stands where the thread that sums it up has its number: eighth by eighth.
fn keep(p: Part, scale: f32, half: u32, thread: u32) {
  if (brings(thread)) {
    let to = half * TILE + thread / 4 % DEPTH * STRIDE + thread % 4;
    keep_two(to, p.k0.x, p.k1.x, p.k2.x, p.k3.x);
    keep_two(to + 8, p.k0.y, p.k1.y, p.k2.y, p.k3.y);
    keep_two(to + 16, p.k0.z, p.k1.z, p.k2.z, p.k3.z);
    keep_two(to + 24, p.k0.w, p.k1.w, p.k2.w, p.k3.w);
  }
  if (a_place(thread) < ROWS * DEPTH) {
    a_tile[half * A_TILE + a_place(thread)] = to_input(select(p.a, p.a * scale * p.norm, NORM));
  }
}

// Written out, or each would wait for its loads: eight on their way at once.
fn add_eight(sum: vec2f, row: u32, at: u32) -> vec2f {
  let w0 = packed_weight(weight_tile[at]);
  let w1 = packed_weight(weight_tile[at + STRIDE]);
  let w2 = packed_weight(weight_tile[at + 2 * STRIDE]);
  let w3 = packed_weight(weight_tile[at + 3 * STRIDE]);
  let w4 = packed_weight(weight_tile[at + 4 * STRIDE]);
  let w5 = packed_weight(weight_tile[at + 5 * STRIDE]);
  let w6 = packed_weight(weight_tile[at + 6 * STRIDE]);
  let w7 = packed_weight(weight_tile[at + 7 * STRIDE]);
  let x0 = a_tile[row];
  let x1 = a_tile[row + 1];
  let x2 = a_tile[row + 2];
  let x3 = a_tile[row + 3];
  let x4 = a_tile[row + 4];
  let x5 = a_tile[row + 5];
  let x6 = a_tile[row + 6];
  let x7 = a_tile[row + 7];
  var more = vec2f();
  more.x = add_column(add_column(add_column(add_column(sum.x, x0, w0), x1, w1), x2, w2), x3, w3);
  more.x = add_column(add_column(add_column(add_column(more.x, x4, w4), x5, w5), x6, w6), x7, w7);
  if (each > 1) {
    let y = row + DEPTH;
    more.y = add_column(add_column(sum.y, a_tile[y], w0), a_tile[y + 1], w1);
    more.y = add_column(add_column(more.y, a_tile[y + 2], w2), a_tile[y + 3], w3);
    more.y = add_column(add_column(more.y, a_tile[y + 4], w4), a_tile[y + 5], w5);
    more.y = add_column(add_column(more.y, a_tile[y + 6], w6), a_tile[y + 7], w7);
  }
  return more;
}

fn add_one(sum: vec2f, row: u32, at: u32) -> vec2f {
  let w = packed_weight(weight_tile[at]);
  if (each == 1) {
    return vec2(add_column(sum.x, a_tile[row], w), 0);
  }
  return vec2(add_column(sum.x, a_tile[row], w), add_column(sum.y, a_tile[row + DEPTH], w));
}

// Four columns of a row of the sums.
fn result(row: u32, n: u32) -> vec4f {
  let at = row * COLUMNS + 4 * n;
  return bitcast<vec4f>(vec4(weight_tile[at].x, weight_tile[at + 1].x, weight_tile[at + 2].x, weight_tile[at + 3].x));
}
