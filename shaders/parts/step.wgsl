// What a piece of a step is, for every kernel that goes by rows.

struct Step {
  rows: u32,       // token rows of this piece
  logit_rows: u32, // rows that get logits
}
