// gemm_wide.wgsl's lanes own 8 columns each: the lower half of them the first of pairs of columns, the upper half their
// partners, so that what becomes of a pair needs both values and no memory. Needs whole panels, and pairs of 8 with 8.

// Which pair of vec4s a lane ends with.
fn pair_of(group: u32, lane: u32) -> u32 {
  return group * SUBGROUP + 2 * (lane % (SUBGROUP / 2)) + select(0u, 1u, lane >= SUBGROUP / 2);
}

// Which 8 columns a lane owns; the last ones again past the end.
fn columns_of(group: u32, lane: u32) -> u32 {
  let first = first_of_pair(min(group * SUBGROUP + 2 * (lane % (SUBGROUP / 2)), params.columns4 / 2 - 2));
  return (first + select(0u, pair_distance(), lane >= SUBGROUP / 2)) / 2;
}

// Every lane must come: each gives away one vec4 and gets its other's partner.
fn finish(row: u32, group: u32, lane: u32, low: vec4f, high: vec4f) {
  let n = 2 * columns_of(group, lane);
  let upper = lane >= SUBGROUP / 2;
  let left = biased(n, low);
  let right = biased(n + 1, high);
  let other = subgroupShuffleXor(select(right, left, upper), SUBGROUP / 2);
  let pair = pair_of(group, lane);
  if (pair < params.columns4 / 2) {
    store_pair(row, pair, select(left, other, upper), select(other, right, upper));
  }
}
