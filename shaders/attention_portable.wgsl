// out[row][head] = softmax(q K^T) V over a sequence's keys in the paged cache, up to the row's own position (causal),
// and with a window from the first key that the row sees. For adapters without a fixed subgroup size.
// A workgroup serves up to 4 flattened rows (token, query head of one KV head) of one sequence; a vec4 holds the same
// quantity for each row. Keys come in tiles of 4 per thread, at fixed positions. A thread owns 4 keys when computing
// scores, then 4 head dimensions when summing values. Values of slots not yet written are not read.
// The innermost loops are unrolled by hand: a software adapter is slow to index an array unless the index is constant.
// Parts: attention_inputs, attention_four_rows, running_softmax.

override threads: u32 = HEAD_DIM / 4; // one per vec4 of a head
override tile_keys: u32 = 4 * threads; // keys per tile

var<workgroup> weights: array<vec4f, tile_keys>;  // by key of the tile
var<workgroup> value_at: array<u32, tile_keys>;   // by key of the tile
var<workgroup> partial: array<vec4f, threads>;    // by thread

@compute @workgroup_size(threads)
fn main(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let tile = tiles[workgroup.x];
  let kv_head = workgroup.y;
  // Rows past the end repeat the last one.
  let flat = tile.z + min(vec4<u32>(0, 1, 2, 3), vec4(tile.w - 1));
  let token = tile.y + flat / params.group;
  let head = ((token * params.kv_heads + kv_head) * params.group + flat % params.group) * threads;
  let position = vec4(tokens[token.x].y, tokens[token.y].y, tokens[token.z].y, tokens[token.w].y);
  let first = first_key(position.x);
  let last = position.w;
  let first_part = first / PART + workgroup.z;
  if (SPLIT && first_part * PART > last) {
    return;
  }

  load_queries(head, thread);
  workgroupBarrier();

  var whole = array<vec4f, 4>(); // by row, this thread's dimensions
  var whole_highest = vec4f(lowest);
  var whole_total = vec4f();
  for (var part = first_part; part <= select(last / PART, first_part, SPLIT); part++) {
    let begin = max(first, part * PART);
    let end = min(last + 1, (part + 1) * PART);
    var sum = array<vec4f, 4>();
    var highest = vec4f(lowest);
    var total = vec4f(); // part of the sum of weights from this thread's keys
    for (var start = begin - (begin - part * PART) % tile_keys; start < end; start += tile_keys) {
      let key = start + 4 * thread;
      var score = array<vec4f, 4>(); // by key
      var at: array<u32, 4>;
      for (var i = 0u; i < 4; i++) {
        at[i] = key_at(tile.x, clamp(key + i, first, last), kv_head);
      }
      // A thread whose keys are not seen by any row has nothing to multiply.
      for (var d = select(threads, 0u, key + 3 >= first && key < end); d < threads; d++) {
        let x0 = queries[4 * d];
        let x1 = queries[4 * d + 1];
        let x2 = queries[4 * d + 2];
        let x3 = queries[4 * d + 3];
        score[0] = add_products(score[0], load(at[0] + d), x0, x1, x2, x3);
        score[1] = add_products(score[1], load(at[1] + d), x0, x1, x2, x3);
        score[2] = add_products(score[2], load(at[2] + d), x0, x1, x2, x3);
        score[3] = add_products(score[3], load(at[3] + d), x0, x1, x2, x3);
      }
      for (var i = 0u; i < 4; i++) {
        score[i] = select(vec4f(lowest), score[i], seen(position, key + i, end));
      }
      partial[thread] = max(max(score[0], score[1]), max(score[2], score[3]));
      workgroupBarrier();
      var top = highest;
      for (var t = 0u; t < threads; t++) {
        top = max(top, partial[t]);
      }
      let shrink = shrunk4(highest, top);
      highest = top;
      for (var i = 0u; i < 4; i++) {
        score[i] = select(vec4f(), exp(score[i] - top), seen(position, key + i, end));
        weights[4 * thread + i] = score[i];
        value_at[4 * thread + i] = at[i] + value_offset();
        sum[i] *= shrink[i];
      }
      total = fma(total, shrink, (score[0] + score[1]) + (score[2] + score[3]));
      workgroupBarrier();
      for (var j = max(start, first) - start; j < min(tile_keys, end - start); j++) {
        let v = load(value_at[j] + thread);
        let w = weights[j];
        sum[0] = fma(vec4f(w.x), v, sum[0]);
        sum[1] = fma(vec4f(w.y), v, sum[1]);
        sum[2] = fma(vec4f(w.z), v, sum[2]);
        sum[3] = fma(vec4f(w.w), v, sum[3]);
      }
      // No barrier is needed here: the next tile's maxima replace only these maxima, and its weights follow another
      // barrier.
    }
    workgroupBarrier();
    partial[thread] = total;
    workgroupBarrier();
    var weight = vec4f();
    for (var t = 0u; t < threads; t++) {
      weight += partial[t];
    }
    workgroupBarrier();
    let top = max(whole_highest, highest);
    let old = shrunk4(whole_highest, top);
    let fresh = shrunk4(highest, top);
    whole_highest = top;
    whole_total = fma(whole_total, old, weight * fresh);
    for (var i = 0u; i < 4; i++) {
      whole[i] = fma(whole[i], vec4f(old[i]), sum[i] * fresh[i]);
    }
  }
  for (var i = 0u; i < tile.w; i++) {
    let to = select(head[i], (head[i] / threads * workgroups.z + workgroup.z) * (threads + 1), SPLIT);
    out[to + thread] = select(whole[i] / whole_total[i], whole[i], SPLIT);
    if (SPLIT && thread == 0) {
      out[to + threads] = vec4f(whole_highest[i], whole_total[i], 0.0, 0.0);
    }
  }
}
