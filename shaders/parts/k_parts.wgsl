// How GPUs sum along k: in parts, each from nothing, k ascending; then the parts, in order. Few rows have a thread a part, many
// rows a thread for all of them: the same bits.

const MOST_PARTS = 64u;

// vec4s of k in a part: whole tiles of 4, such that there are few enough parts.
fn part_size(inputs4: u32) -> u32 {
  return 4 * ((inputs4 + 4 * MOST_PARTS - 1) / (4 * MOST_PARTS));
}
