// Each lane of gemm_wide.wgsl owns 8 columns: lanes of the lower half the first of each pair of columns, lanes of the
// upper half their partners. Lanes exchange values by shuffle, so that finishing a pair, which needs both, takes no
// memory. Needs whole panels, and pairs in groups of 8.

// The pair of vec4s that a lane finishes.
fn pair_of(group: u32, lane: u32) -> u32 {
  return group * SUBGROUP + 2 * (lane % (SUBGROUP / 2)) + select(0u, 1u, lane >= SUBGROUP / 2);
}

// The lane's group of 8 columns. Past the end: the last group again.
fn columns_of(group: u32, lane: u32) -> u32 {
  let first = first_of_pair(min(group * SUBGROUP + 2 * (lane % (SUBGROUP / 2)), params.columns4 / 2 - 2));
  return (first + select(0u, pair_distance(), lane >= SUBGROUP / 2)) / 2;
}

// All lanes must call it: each gives one vec4 to its partner lane and gets one from it.
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
