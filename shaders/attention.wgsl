// out[row][head] = softmax(q K^T) V over a sequence's keys in the paged cache, up to the row's own position (causal).
// With a window, keys start at the first one that the row sees; earlier keys are not read unless another row of the
// tile sees them.
// A subgroup serves ROWS flattened rows (token, query head of one KV head) of one sequence. Keys come in tiles of one
// key per lane, at fixed positions. Lanes stand for keys when computing scores, then for head dimensions when summing
// values.
// Values of slots not yet written count as 0. A lane whose key is before the first one read uses that key with weight
// 0.
// Parts: attention_inputs, running_softmax.
enable subgroups;

override SUBGROUP: u32 = 8; // lanes; the adapter's fixed size
override ROWS: u32 = 8;     // flattened rows per subgroup, at most 8 and SUBGROUP
override lane_dims4: u32 = (HEAD_DIM / 4 + SUBGROUP - 1) / SUBGROUP; // vec4s of the output that a lane owns, at most 8

@compute @workgroup_size(SUBGROUP)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32) {
  let tile = tiles[workgroup.x];
  let kv_head = workgroup.y;
  // Lane r holds row r's index in q and out, in heads, and its position. Rows past the end repeat the last one.
  let flat = tile.z + min(lane, tile.w - 1);
  let token = tile.y + flat / params.group;
  let my_head = (token * params.kv_heads + kv_head) * params.group + flat % params.group;
  let my_position = tokens[token].y;
  var position: array<u32, 8>;
  var whole_highest: array<f32, 8>;
  var whole_total: array<f32, 8>;
  var whole: array<vec4f, 64>;
  for (var r = 0u; r < ROWS; r++) {
    position[r] = subgroupShuffle(my_position, r);
    whole_highest[r] = lowest;
  }
  // A runtime bound keeps this loop from being unrolled, which would double the compile time.
  var loaded: array<vec4f, 64>;
  for (var row = tile.z; row < tile.z + tile.w; row++) {
    let q_at = subgroupShuffle(my_head, row - tile.z) * dims4;
    for (var i = 0u; i < lane_dims4; i++) {
      loaded[(row - tile.z) * lane_dims4 + i] = q[q_at + min(lane * lane_dims4 + i, dims4 - 1)];
    }
  }
  // A row's q is spread over the lanes, in order, and read from them for every key instead of from memory.
  var query = loaded;
  let first = first_key(tokens[tile.y + tile.z / params.group].y);
  let last = tokens[tile.y + (tile.z + tile.w - 1) / params.group].y;
  let first_part = first / PART + workgroup.z;
  if (SPLIT && first_part * PART > last) {
    return;
  }
  for (var part = first_part; part <= select(last / PART, first_part, SPLIT); part++) {
    var highest: array<f32, 8>;
    var total: array<f32, 8>; // this lane's part of the sum of weights
    var sum: array<vec4f, 64>;
    for (var r = 0u; r < ROWS; r++) {
      highest[r] = lowest;
      total[r] = 0.0; // explicit: Dawn zeroes a variable declared in a loop only once
      for (var i = 0u; i < lane_dims4; i++) {
        sum[r * lane_dims4 + i] = vec4f();
      }
    }
    let begin = max(part * PART, first / SUBGROUP * SUBGROUP);
    for (var start = begin; start < min(last + 1, (part + 1) * PART); start += SUBGROUP) {
      let key = clamp(start + lane, first, last);
      let k_at = key_at(tile.x, key, kv_head);
      var score = array<f32, 8>();
      for (var j = 0u; j < (params.dims4 + lane_dims4 - 1) / lane_dims4; j++) {
        for (var i = 0u; i < lane_dims4 && (dims4 % lane_dims4 == 0 || j * lane_dims4 + i < dims4); i++) {
          let k = load(k_at + j * lane_dims4 + i);
          for (var r = 0u; r < ROWS; r++) {
            let x = subgroupShuffle(query[r * lane_dims4 + i], j);
            score[r] = fma(x.w, k.w, fma(x.z, k.z, fma(x.y, k.y, fma(x.x, k.x, score[r]))));
          }
        }
      }
      for (var r = 0u; r < ROWS; r++) {
        let seen = position[r] - (start + lane) < params.window; // false if it wraps: the key is later
        let s = select(lowest, score[r], seen);
        let top = max(highest[r], subgroupMax(s));
        let shrink = shrunk(highest[r], top);
        score[r] = select(0.0, exp(s - top), seen);
        highest[r] = top;
        total[r] = fma(total[r], shrink, score[r]);
        for (var i = 0u; i < lane_dims4; i++) {
          sum[r * lane_dims4 + i] *= shrink;
        }
      }
      for (var j = 0u; j < params.lanes; j++) {
        let v_key = subgroupShuffle(k_at, j) + value_offset();
        for (var i = 0u; i < lane_dims4; i++) {
          let v = select(vec4f(), load(v_key + min(lane + i * SUBGROUP, dims4 - 1)), start + j <= last);
          for (var r = 0u; r < ROWS; r++) {
            sum[r * lane_dims4 + i] = fma(vec4f(subgroupShuffle(score[r], j)), v, sum[r * lane_dims4 + i]);
          }
        }
      }
    }
    for (var r = 0u; r < ROWS; r++) {
      let top = max(whole_highest[r], highest[r]);
      let old = shrunk(whole_highest[r], top);
      let fresh = shrunk(highest[r], top);
      whole_highest[r] = top;
      whole_total[r] = fma(whole_total[r], old, subgroupAdd(total[r]) * fresh);
      for (var i = 0u; i < lane_dims4; i++) {
        whole[r * lane_dims4 + i] = fma(whole[r * lane_dims4 + i], vec4f(old), sum[r * lane_dims4 + i] * fresh);
      }
    }
  }
  for (var r = 0u; r < ROWS; r++) {
    let head = subgroupShuffle(my_head, r);
    let at = select(head * dims4, (head * workgroups.z + workgroup.z) * (dims4 + 1), SPLIT);
    let divisor = select(whole_total[r], 1.0, SPLIT);
    for (var i = 0u; i < lane_dims4; i++) {
      let d = lane + i * SUBGROUP;
      if (r < tile.w && d < dims4) {
        out[at + d] = whole[r * lane_dims4 + i] / divisor;
      }
    }
    if (SPLIT && r < tile.w && lane == 0) {
      out[at + dims4] = vec4f(whole_highest[r], whole_total[r], 0.0, 0.0);
    }
  }
}
