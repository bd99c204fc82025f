// gemm_streamed.wgsl's workgroups own 16 columns and their 16 partners each, 8 with 8. Needs whole panels.

// Which 8 columns, of 4 of a workgroup: two, then their partners; the last ones again past the end.
fn eight_of(group: u32, i: u32) -> u32 {
  let first = first_of_pair(min(4 * group + 2 * (i % 2), params.columns4 / 2 - 2));
  return (first + select(0u, pair_distance(), i >= 2)) / 2;
}

fn finish(first: u32, rows: u32, group: u32, thread: u32) {
  let pair = 4 * group + thread % 4;
  let row = thread / 4;
  if (row < rows && pair < params.columns4 / 2) {
    let n = first_of_pair(pair);
    let left = biased(n, result(row, thread % 4));
    store_pair(first + row, pair, left, biased(n + pair_distance(), result(row, 4 + thread % 4)));
  }
}
