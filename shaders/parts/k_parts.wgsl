// How GPUs sum along k: in parts, each from zero with k ascending, then the parts in order. With few rows each part has
// its own thread; with many rows one thread sums all parts. The bits are the same.

const MOST_PARTS = 64u;

// vec4s of k in a part: whole tiles of 4, and large enough that there are at most MOST_PARTS.
fn part_size(inputs4: u32) -> u32 {
  return 4 * ((inputs4 + 4 * MOST_PARTS - 1) / (4 * MOST_PARTS));
}
