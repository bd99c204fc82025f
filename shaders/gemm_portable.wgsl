// out[row][n] (+)= bias[n] + sum over k of a[row][k] * weights[k][n], for adapters without a fixed subgroup size.
// A thread computes 1, 4 or 8 rows of two vec4s of columns, so that each value of a is used twice. The kernel's end
// chooses the columns. Rows are unrolled by hand, because a software adapter keeps arrays in memory.
// The order of summation is fixed: k ascending, four at a time, for any ROWS.
// Parts: gemm_inputs, products, gemm_params, panels, step, row_scale, squares.
// Ends: portable_columns, gemm_store; portable_pairs, gated_store, gated; portable_pairs, qkv_store, rope_store.

override WORKGROUP: u32 = 32;       // threads along the columns
override ROWS: u32 = 4;             // rows a thread computes: 1, 4 or 8; with NORM 1 or 4

// Four k of each row of a.
struct Inputs {
  r0: Input,
  r1: Input,
  r2: Input,
  r3: Input,
  r4: Input,
  r5: Input,
  r6: Input,
  r7: Input,
}

// A vec4 of each row of out.
struct Rows {
  r0: vec4f,
  r1: vec4f,
  r2: vec4f,
  r3: vec4f,
  r4: vec4f,
  r5: vec4f,
  r6: vec4f,
  r7: vec4f,
}

// Adds four k of the vec4 of columns at `at`, for all rows. `c`: distance from one k to the next.
fn add_rows(sum: Rows, x: Inputs, at: u32, c: u32) -> Rows {
  let w = Weights4(weight(at), weight(at + c), weight(at + 2 * c), weight(at + 3 * c));
  var more = sum;
  more.r0 = add_products(sum.r0, x.r0, w);
  if (ROWS > 1) {
    more.r1 = add_products(sum.r1, x.r1, w);
    more.r2 = add_products(sum.r2, x.r2, w);
    more.r3 = add_products(sum.r3, x.r3, w);
  }
  if (ROWS > 4) {
    more.r4 = add_products(sum.r4, x.r4, w);
    more.r5 = add_products(sum.r5, x.r5, w);
    more.r6 = add_products(sum.r6, x.r6, w);
    more.r7 = add_products(sum.r7, x.r7, w);
  }
  return more;
}

fn by_row(v: Rows) -> array<vec4f, 8> {
  return array(v.r0, v.r1, v.r2, v.r3, v.r4, v.r5, v.r6, v.r7);
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let rows = select(step.rows, step.logit_rows, params.count == 1);
  let row = group.y * ROWS;
  let columns = columns_of(group.x, thread);
  // Rows and columns past the end repeat the last one and are not stored.
  let last = rows - 1;
  let row0123 = min(vec4(row, row + 1, row + 2, row + 3), vec4(last)) * params.inputs4;
  let row4567 = min(vec4(row + 4, row + 5, row + 6, row + 7), vec4(last)) * params.inputs4;
  var scales = vec4f(1);
  if (NORM) {
    for (var r = 0u; r < min(ROWS, 4); r++) {
      scales[r] = row_scale(row0123[r], params.inputs4, params.inputs, params.eps, thread, WORKGROUP);
    }
  }
  if (columns.x >= params.columns4) {
    return;
  }
  let own = place(columns.x);
  let beside = place(min(columns.y, params.columns4 - 1));
  var left_sum = Rows();
  var right_sum = Rows();
  var left_at = own.x;
  var right_at = beside.x;
  for (var k = 0u; k < params.inputs4; k++) {
    var x = Inputs();
    x.r0 = to_input(input(row0123.x, k, scales.x));
    if (ROWS > 1) {
      x.r1 = to_input(input(row0123.y, k, scales.y));
      x.r2 = to_input(input(row0123.z, k, scales.z));
      x.r3 = to_input(input(row0123.w, k, scales.w));
    }
    if (ROWS > 4) {
      x.r4 = to_input(a[row4567.x + k]);
      x.r5 = to_input(a[row4567.y + k]);
      x.r6 = to_input(a[row4567.z + k]);
      x.r7 = to_input(a[row4567.w + k]);
    }
    left_sum = add_rows(left_sum, x, left_at, own.y);
    right_sum = add_rows(right_sum, x, right_at, beside.y);
    left_at += 4 * own.y;
    right_at += 4 * beside.y;
  }
  if (ROWS == 1) {
    finish(row, group.x, thread, left_sum.r0, right_sum.r0);
    return;
  }
  // A loop, because stores take longest to compile.
  let left = by_row(left_sum);
  let right = by_row(right_sum);
  for (var r = 0u; r < min(ROWS, rows - row); r++) {
    finish(row + r, group.x, thread, left[r], right[r]);
  }
}
