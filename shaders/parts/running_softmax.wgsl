// Softmax of scores that come part by part: sums are kept relative to the highest score so far.

const lowest = -3.0e38; // below any score

// What a sum over scores is multiplied by when the highest rises from `before` to `after`. Exactly 1 where nothing changes.
fn shrunk(before: f32, after: f32) -> f32 {
  return select(exp(before - after), 1.0, before == after);
}

// The same of four rows.
fn shrunk4(before: vec4f, after: vec4f) -> vec4f {
  return select(exp(before - after), vec4f(1), before == after);
}
