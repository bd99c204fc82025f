// Each thread of gemm_portable.wgsl owns a pair of vec4s of columns.

fn columns_of(group: u32, thread: u32) -> vec2<u32> {
  let pair = group * WORKGROUP + thread;
  if (pair >= params.columns4 / 2) {
    return vec2(params.columns4);
  }
  return first_of_pair(pair) + vec2(0, pair_distance());
}

fn finish(row: u32, group: u32, thread: u32, left: vec4f, right: vec4f) {
  let n = columns_of(group, thread);
  store_pair(row, group * WORKGROUP + thread, biased(n.x, left), biased(n.y, right));
}
