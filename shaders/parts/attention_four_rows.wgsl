// Four rows of attention at once; a vec4 holds the same quantity for each row (attention_portable.wgsl).

var<workgroup> queries: array<vec4f, HEAD_DIM>;   // by dimension

fn add_products(sum: vec4f, k: vec4f, x0: vec4f, x1: vec4f, x2: vec4f, x3: vec4f) -> vec4f {
  return fma(vec4f(k.w), x3, fma(vec4f(k.z), x2, fma(vec4f(k.y), x1, fma(vec4f(k.x), x0, sum))));
}

// Which rows see a key of a part that ends before `end`. If the difference wraps, the key is later than the row.
fn seen(position: vec4<u32>, key: u32, end: u32) -> vec4<bool> {
  return select(vec4<bool>(), position - vec4(key) < vec4(params.window), key < end);
}

// `head`: index of each row's head in q. Other threads may read `queries` after a barrier.
fn load_queries(head: vec4<u32>, thread: u32) {
  let q0 = q[head.x + thread];
  let q1 = q[head.y + thread];
  let q2 = q[head.z + thread];
  let q3 = q[head.w + thread];
  queries[4 * thread] = vec4(q0.x, q1.x, q2.x, q3.x);
  queries[4 * thread + 1] = vec4(q0.y, q1.y, q2.y, q3.y);
  queries[4 * thread + 2] = vec4(q0.z, q1.z, q2.z, q3.z);
  queries[4 * thread + 3] = vec4(q0.w, q1.w, q2.w, q3.w);
}
