// A thread's sum over a part of k for eight columns, and the sum over parts (gemm_split.wgsl).

const THREADS = 256u;

override slots: u32 = THREADS / EIGHTS; // parts summed at once, in consecutive groups of threads
override width4: u32 = 2 * EIGHTS;      // vec4s of columns per workgroup

var<workgroup> sums_of_parts: array<vec4f, 2 * THREADS>; // [slots][width4] of a row; at the end the results, [ROWS][width4]

// Four k of eight columns.
struct Four {
  k0: vec4<u32>,
  k1: vec4<u32>,
  k2: vec4<u32>,
  k3: vec4<u32>,
}

// By row: its first four columns, and the other four. No arrays, because compilers keep those in memory.
struct Sums {
  low: mat4x4f,
  high: mat4x4f,
}

fn row_of(m: mat4x4f, r: u32) -> vec4f {
  return select(select(m[0], m[1], r == 1), select(m[2], m[3], r == 3), r >= 2);
}

fn scales_of(bases: vec4<u32>, thread: u32) -> vec4f {
  let x = row_scale(bases.x, params.inputs4, params.inputs, params.eps, thread, THREADS);
  if (ROWS == 1) {
    return vec4(x);
  }
  let y = row_scale(bases.y, params.inputs4, params.inputs, params.eps, thread, THREADS);
  let z = row_scale(bases.z, params.inputs4, params.inputs, params.eps, thread, THREADS);
  return vec4(x, y, z, row_scale(bases.w, params.inputs4, params.inputs, params.eps, thread, THREADS));
}

// vec4 k of the weights, in a part that ends before `end`. Past the end: the last one again, which is not used.
// `at`: index of the columns' first element, and the distance between their rows.
fn four_k(k: u32, end: u32, at: vec2<u32>) -> Four {
  let place = at.x + 4 * min(k, end - 1) * at.y;
  return Four(weights[place], weights[place + at.y], weights[place + 2 * at.y], weights[place + 3 * at.y]);
}

// The same vec4 of k of each row of a, normalised with NORM.
fn inputs(k: u32, end: u32, bases: vec4<u32>, scales: vec4f) -> mat4x4f {
  let last = min(k, end - 1);
  let x = input(bases.x, last, scales.x);
  if (ROWS == 1) {
    return mat4x4f(x, vec4f(), vec4f(), vec4f());
  }
  let y = input(bases.y, last, scales.y);
  return mat4x4f(x, y, input(bases.z, last, scales.z), input(bases.w, last, scales.w));
}

fn add(s: Sums, x: mat4x4f, w: Four) -> Sums {
  let left = Weights4(packed_weight(w.k0.xy), packed_weight(w.k1.xy), packed_weight(w.k2.xy), packed_weight(w.k3.xy));
  let right = Weights4(packed_weight(w.k0.zw), packed_weight(w.k1.zw), packed_weight(w.k2.zw), packed_weight(w.k3.zw));
  return Sums(add_rows(s.low, x, left), add_rows(s.high, x, right));
}

fn add_rows(s: mat4x4f, x: mat4x4f, w: Weights4) -> mat4x4f {
  let first = add_products(s[0], to_input(x[0]), w);
  if (ROWS == 1) {
    return mat4x4f(first, s[1], s[2], s[3]);
  }
  return mat4x4f(
    first,
    add_products(s[1], to_input(x[1]), w),
    add_products(s[2], to_input(x[2]), w),
    add_products(s[3], to_input(x[3]), w),
  );
}

// `sum` plus `count` parts of one vec4 of columns. Eight are loaded at once, so that their loads overlap.
fn add_parts(sum: vec4f, column: u32, count: u32) -> vec4f {
  var more = sum;
  var p = 0u;
  for (; p + 8 <= count; p += 8) {
    let p0 = part_sum(p, column);
    let p1 = part_sum(p + 1, column);
    let p2 = part_sum(p + 2, column);
    let p3 = part_sum(p + 3, column);
    let p4 = part_sum(p + 4, column);
    let p5 = part_sum(p + 5, column);
    let p6 = part_sum(p + 6, column);
    let p7 = part_sum(p + 7, column);
    more = (((((((more + p0) + p1) + p2) + p3) + p4) + p5) + p6) + p7;
  }
  for (; p < count; p++) {
    more += part_sum(p, column);
  }
  return more;
}

fn part_sum(part: u32, column: u32) -> vec4f {
  return sums_of_parts[part * width4 + column];
}

// Four columns of a row of the results.
fn result(row: u32, n: u32) -> vec4f {
  return sums_of_parts[row * width4 + n];
}
