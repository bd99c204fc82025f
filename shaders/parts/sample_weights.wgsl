// Choosing among a row's weights: which tokens top-k and top-p keep, and which of them the draw falls on.

// A thread's sum, where what the threads found of the row has been read: workgroup memory has room for no other array.
fn sum_of(t: u32) -> f32 {
  return bitcast<f32>(words[t].x);
}

fn set_sum(sum: f32) {
  words[thread].x = bitcast<u32>(sum);
}

// 1 where counting; 0 of a token that may not be chosen.
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

// The least key that top-k and then top-p keep: of each the largest of which at least so much is kept as it wants, found by
// halving. Both in one loop: what sums the weights is compiled once for every place that calls it.
fn least_kept(row: Row, top: u32, highest: f32) -> u32 {
  var low = 0u;
  for (var rule = 0u; rule < 2; rule++) {
    let top_k = rule == 0;
    if (!select((row.top_p < 1), row.top_k > 0, top_k)) {
      continue;
    }
    var high = top;
    var wanted = f32(row.top_k);
    // A part of what there is: top-p first asks how much that is.
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

// The first token at which the sum of weights passes draw * total. Every thread sums a run of ids, then one walks.
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
