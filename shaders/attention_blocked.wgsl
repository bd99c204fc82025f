// out[row][head] = softmax(q K^T) V over a sequence's keys in the paged cache, up to the row's own position (causal),
// and with a window from the first key that the row sees. For GPUs.
// A workgroup serves up to ROWS flattened rows (token, query head of one KV head) of one sequence. Keys come in tiles
// of KEYS, at fixed positions, through workgroup memory; the next tile is prefetched. A thread scores four keys of a
// row, then sums four dimensions of two rows. The order of keys is the same for any ROWS. Values of slots not yet
// written count as 0.
// Parts: attention_inputs, attention_tiles, attention_sums, running_softmax.

override ROWS: u32 = 16;                    // flattened rows per workgroup, at most 16; q must fit 4 KiB
override row_step: u32 = THREADS / dims4;   // distance between the two rows that a thread sums

var<workgroup> queries: array<vec4f, ROWS * (dims4 + 1)>; // [ROWS][dims4], one vec4 of padding per row against bank conflicts
var<workgroup> partial: array<f32, ROWS * quads>;         // a thread's highest score

@compute @workgroup_size(THREADS)
fn main(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let tile = tiles[workgroup.x];
  let kv_head = workgroup.y;
  let keys = keys_of(tile, kv_head);
  let first_part = keys.first / PART + workgroup.z;
  if (SPLIT && first_part * PART > keys.last) {
    return;
  }
  for (var i = thread; i < ROWS * dims4; i += THREADS) {
    queries[i + i / dims4] = q[head_of(tile, kv_head, i / dims4) * dims4 + i % dims4];
  }
  let row = thread / quads;
  let quad = thread % quads;
  let position = tokens[tile.y + (tile.z + min(row, tile.w - 1)) / params.group].y;
  let d = thread % dims4;
  let summed = thread / dims4;
  var highest = lowest;
  var total = 0.0;
  var sum: array<vec4f, 2>;
  var whole: array<vec4f, 2>;
  var whole_highest = vec2f(lowest);
  var whole_total: vec2f;
  let begin = max(first_part * PART, keys.first / KEYS * KEYS);
  let end = select(keys.last + 1, min(keys.last + 1, (first_part + 1) * PART), SPLIT);
  set_place(place_of(keys, begin, thread), thread);
  workgroupBarrier();
  var k = fetch(0, thread);
  var v = fetch(value_offset(), thread);
  var place = place_of(keys, begin + KEYS, thread);
  workgroupBarrier();
  for (var start = begin; start < end; start += KEYS) {
    keep_keys(k, thread);
    set_place(place, thread);
    workgroupBarrier();
    k = fetch(0, thread);
    place = place_of(keys, start + 2 * KEYS, thread);
    var score = vec4f(); // explicit: Dawn zeroes a variable declared in a loop only once
    if (row < ROWS) {
      for (var i = 0u; i < dims4; i++) {
        let x = queries[row * (dims4 + 1) + i];
        let at = i * (KEYS + 1) + quad;
        score = add_products(score, x, at, at + quads, at + 2 * quads, at + 3 * quads);
      }
    }
    // False if it wraps: the key is later.
    let seen = vec4(position) - (start + quad + quads * vec4<u32>(0, 1, 2, 3)) < vec4(params.window);
    score = select(vec4f(lowest), score, seen);
    if (row < ROWS) {
      partial[thread] = max(max(score.x, score.y), max(score.z, score.w));
    }
    workgroupBarrier();
    keep_values(v, keys, start, thread);
    v = fetch(value_offset(), thread);
    if (row < ROWS) {
      var top = highest;
      for (var i = 0u; i < quads; i++) {
        top = max(top, partial[row * quads + i]);
      }
      let shrink = shrunk(highest, top);
      let w = select(vec4f(), exp(score - top), seen);
      highest = top;
      total = fma(total, shrink, (w.x + w.y) + (w.z + w.w));
      totals[thread] = total;
      weights[row * (quads + 1) + quad] = w;
      if (quad == 0) {
        weights[row * (quads + 1) + quads] = vec4f(shrink, highest, 0, 0);
      }
    }
    workgroupBarrier();
    let ends = (start + KEYS) % PART == 0 || start + KEYS >= end;
    for (var i = 0u; i < 2; i++) {
      let r = summed + i * row_step;
      if (summed < row_step && r < ROWS) {
        let known = weights[r * (quads + 1) + quads];
        let more = add_values(sum[i] * known.x, r * (quads + 1), d);
        sum[i] = more;
        if (ends) {
          let top = max(whole_highest[i], known.y);
          let old = shrunk(whole_highest[i], top);
          let fresh = shrunk(known.y, top);
          whole_highest[i] = top;
          whole_total[i] = fma(whole_total[i], old, weight_of(r) * fresh);
          whole[i] = fma(whole[i], vec4f(old), more * fresh);
          sum[i] = vec4f();
        }
      }
    }
    highest = select(highest, lowest, ends);
    total = select(total, 0.0, ends);
    workgroupBarrier();
  }
  for (var i = 0u; i < 2; i++) {
    let r = summed + i * row_step;
    if (summed < row_step && r < min(ROWS, tile.w)) {
      let to = place_in_out(head_of(tile, kv_head, r), workgroup.z, workgroups.z);
      out[to + d] = whole[i] / select(whole_total[i], 1.0, SPLIT);
      if (SPLIT && d == 0) {
        out[to + dims4] = vec4f(whole_highest[i], whole_total[i], 0.0, 0.0);
      }
    }
  }
}
