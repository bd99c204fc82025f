// The size of a step's piece, for every kernel that works by rows.

struct Step {
  rows: u32,       // token rows of this piece
  logit_rows: u32, // rows that get logits
}
