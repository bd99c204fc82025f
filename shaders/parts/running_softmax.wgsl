// Softmax of scores that arrive in parts: sums are relative to the highest score so far.

const lowest = -3.0e38; // below any score

// Factor for a sum over scores when the highest score rises from `before` to `after`. Exactly 1 if they are equal.
fn shrunk(before: f32, after: f32) -> f32 {
  return select(exp(before - after), 1.0, before == after);
}

// The same for four rows.
fn shrunk4(before: vec4f, after: vec4f) -> vec4f {
  return select(exp(before - after), vec4f(1), before == after);
}
