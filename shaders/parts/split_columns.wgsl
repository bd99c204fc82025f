// Each workgroup of gemm_split.wgsl owns EIGHTS consecutive groups of eight columns.

// The workgroup's i-th group of 8 columns. Past the end: the last group again.
fn eight_of(group: u32, i: u32) -> u32 {
  return min(EIGHTS * group + i, params.columns4 / 2 - 1);
}

fn finish(first: u32, rows: u32, group: u32, thread: u32) {
  let n = width4 * group + thread % width4;
  let row = thread / width4;
  if (row < rows && n < params.columns4) {
    store(first + row, n, result(row, thread % width4));
  }
}
