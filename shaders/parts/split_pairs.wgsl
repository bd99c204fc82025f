// Each workgroup of gemm_split.wgsl owns columns and as many partners, in groups of 8. Needs whole panels.

// The workgroup's i-th group of 8 columns: first half the columns, then their partners. Past the end: the last again.
fn eight_of(group: u32, i: u32) -> u32 {
  let half = EIGHTS / 2;
  let first = first_of_pair(min(EIGHTS * group + 2 * (i % half), params.columns4 / 2 - 2));
  return (first + select(0u, pair_distance(), i >= half)) / 2;
}

fn finish(first: u32, rows: u32, group: u32, thread: u32) {
  let pair = EIGHTS * group + thread % EIGHTS;
  let row = thread / EIGHTS;
  if (row < rows && pair < params.columns4 / 2) {
    let n = first_of_pair(pair);
    let left = biased(n, result(row, thread % EIGHTS));
    store_pair(first + row, pair, left, biased(n + pair_distance(), result(row, EIGHTS + thread % EIGHTS)));
  }
}
