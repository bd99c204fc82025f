// Samples from a row's weights: which tokens top-k and top-p keep, and which of those the draw selects.

// A thread's partial sum. It reuses `words` after its content has been read: there is no workgroup memory for another
// array.
fn sum_of(t: u32) -> f32 {
  return bitcast<f32>(words[t].x);
}

fn set_sum(sum: f32) {
  words[thread].x = bitcast<u32>(sum);
}

// The token's weight, or 1 if `count`; 0 if the token may not be chosen.
fn weight(row: Row, token: u32, lowest: u32, highest: f32, count: bool) -> f32 {
  let v = logits[base + token];
  if (ordered(v) < lowest || !is_number(v) || !allowed(row, token)) {
    return 0.0;
  }
  return select(exp((v - highest) / row.temperature), 1.0, count);
}

// The sum of weights, or the number, of allowed tokens with a key of at least `lowest`.
fn kept(row: Row, lowest: u32, highest: f32, count: bool) -> f32 {
  var mine = 0.0;
  for (var i = thread; i < params.vocab; i += WORKGROUP) {
    mine += weight(row, i, lowest, highest, count);
  }
  workgroupBarrier();
  set_sum(mine);
  workgroupBarrier();
  for (var half = WORKGROUP / 2; half > 0; half /= 2) {
    if (thread < half) {
      set_sum(sum_of(thread) + sum_of(thread + half));
    }
    workgroupBarrier();
  }
  return bitcast<f32>(workgroupUniformLoad(&words[0]).x);
}

// The lowest key that top-k and then top-p keep. For each rule it is the largest key that keeps at least the required
// number or weight, found by bisection. Both rules share a loop, because the summing code is compiled once per call.
fn least_kept(row: Row, top: u32, highest: f32) -> u32 {
  var low = 0u;
  for (var rule = 0u; rule < 2; rule++) {
    let top_k = rule == 0;
    if (!select((row.top_p < 1), row.top_k > 0, top_k)) {
      continue;
    }
    var high = top;
    var wanted = f32(row.top_k);
    // top-p needs a fraction of the total weight, so its first iteration computes the total.
    for (var asks = !top_k; asks || low < high; asks = false) {
      let middle = select(low + (high - low) / 2 + ((high - low) & 1), low, asks);
      let found = kept(row, middle, highest, top_k);
      if (asks) {
        wanted = row.top_p * found;
      } else if (found >= wanted) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
  }
  return low;
}

// The first token at which the running sum of weights exceeds draw * total. Every thread sums a run of ids; then one
// thread walks over the sums.
fn draw_token(row: Row, lowest: u32, highest: f32) -> u32 {
  let run = (params.vocab + WORKGROUP - 1) / WORKGROUP;
  var mine = 0.0;
  for (var i = thread * run; i < min(thread * run + run, params.vocab); i++) {
    mine += weight(row, i, lowest, highest, false);
  }
  workgroupBarrier();
  set_sum(mine);
  workgroupBarrier();
  if (thread > 0) {
    return nothing;
  }
  var total = 0.0;
  for (var t = 0u; t < WORKGROUP; t++) {
    total += sum_of(t);
  }
  let target_sum = row.draw * total;
  var before = 0.0;
  var token = nothing;
  for (var t = 0u; t < WORKGROUP; t++) {
    if (sum_of(t) > 0 && (before + sum_of(t) > target_sum || token == nothing)) {
      var sum = before;
      for (var i = t * run; i < min(t * run + run, params.vocab); i++) {
        let w = weight(row, i, lowest, highest, false);
        sum += w;
        if (w > 0) {
          token = i;
          if (sum > target_sum) {
            break;
          }
        }
      }
      if (sum > target_sum) {
        break;
      }
    }
    before += sum_of(t);
  }
  return token;
}
