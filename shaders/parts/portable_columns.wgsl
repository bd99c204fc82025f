// Each thread of gemm_portable.wgsl owns two vec4s of columns, a workgroup's width apart.

fn columns_of(group: u32, thread: u32) -> vec2<u32> {
  let left = 2 * group * WORKGROUP + thread;
  return vec2(left, left + WORKGROUP);
}

fn finish(row: u32, group: u32, thread: u32, left: vec4f, right: vec4f) {
  let n = columns_of(group, thread);
  store(row, n.x, left);
  if (n.y < params.columns4) {
    store(row, n.y, right);
  }
}
