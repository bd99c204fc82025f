// gemm_wide.wgsl's lanes own 8 columns each, in their order.

// Which 8 columns a lane owns; the last ones again past the end.
fn columns_of(group: u32, lane: u32) -> u32 {
  return min(group * SUBGROUP + lane, params.columns4 / 2 - 1);
}

fn finish(row: u32, group: u32, lane: u32, low: vec4f, high: vec4f) {
  let n = 2 * (group * SUBGROUP + lane);
  if (n < params.columns4) {
    store(row, n, low);
    store(row, n + 1, high);
  }
}
