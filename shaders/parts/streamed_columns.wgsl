// gemm_streamed.wgsl's workgroups own 32 columns each, in their order.

// Which 8 columns, of 4 of a workgroup; the last ones again past the end.
fn eight_of(group: u32, i: u32) -> u32 {
  return min(4 * group + i, params.columns4 / 2 - 1);
}

fn finish(first: u32, rows: u32, group: u32, thread: u32) {
  let n = 8 * group + thread % 8;
  for (var row = thread / 8; row < rows && n < params.columns4; row += THREADS / 8) {
    store(first + row, n, result(row, thread % 8));
  }
}
