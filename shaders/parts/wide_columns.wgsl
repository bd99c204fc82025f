// Each lane of gemm_wide.wgsl owns 8 consecutive columns.

// The lane's group of 8 columns. Past the end: the last group again.
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
