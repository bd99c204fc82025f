// out[row][n] = bias[n] + sum over k of a[row][k] * weights[k][n], for adapters without a fixed subgroup size.
// A thread computes 1, 4 or 8 rows of two vec4s of columns, so that what it loads of a serves twice. Written out: a
// software adapter keeps an array in memory. One order of sums: k ascends, one fma a term, whatever ROWS.
// Parts: gemm_inputs, gemm_params, panels, step.

override WORKGROUP: u32 = 32;       // threads along the columns
override ROWS: u32 = 4;             // rows a thread computes: 1, 4 or 8

// A vec4 of each row, of a or of out.
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

fn add_products(sum: vec4f, x: vec4f, w: mat4x4f) -> vec4f {
  return fma(vec4f(x.w), w[3], fma(vec4f(x.z), w[2], fma(vec4f(x.y), w[1], fma(vec4f(x.x), w[0], sum))));
}

// Four k of the vec4 of columns at `at`, for all rows; `c`: from one k to the next.
fn add_rows(sum: Rows, x: Rows, at: u32, c: u32) -> Rows {
  let w = mat4x4f(weight(at), weight(at + c), weight(at + 2 * c), weight(at + 3 * c));
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

fn store(row: u32, rows: u32, n: u32, sum: vec4f) {
  if (row < rows && n < params.columns4) {
    out[row * params.stride4 + params.first4 + n] = select(sum, sum + bias[n], params.use_bias == 1);
  }
}

fn store_rows(row: u32, rows: u32, n: u32, sum: Rows) {
  store(row, rows, n, sum.r0);
  if (ROWS > 1) {
    store(row + 1, rows, n, sum.r1);
    store(row + 2, rows, n, sum.r2);
    store(row + 3, rows, n, sum.r3);
  }
  if (ROWS > 4) {
    store(row + 4, rows, n, sum.r4);
    store(row + 5, rows, n, sum.r5);
    store(row + 6, rows, n, sum.r6);
    store(row + 7, rows, n, sum.r7);
  }
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let rows = select(step.rows, step.logit_rows, params.count == 1);
  let row = group.y * ROWS;
  let left = 2 * group.x * WORKGROUP + thread;
  let right = left + WORKGROUP;
  if (left >= params.columns4 || row >= rows) {
    return;
  }
  // Rows and columns past the end compute the last one again and are not stored.
  let last = rows - 1;
  let row0123 = min(vec4(row, row + 1, row + 2, row + 3), vec4(last)) * params.inputs4;
  let row4567 = min(vec4(row + 4, row + 5, row + 6, row + 7), vec4(last)) * params.inputs4;
  let beside = place(min(right, params.columns4 - 1));
  let own = place(left);
  var left_sum = Rows();
  var right_sum = Rows();
  var left_at = own.x;
  var right_at = beside.x;
  for (var k = 0u; k < params.inputs4; k++) {
    var x = Rows();
    x.r0 = a[row0123.x + k];
    if (ROWS > 1) {
      x.r1 = a[row0123.y + k];
      x.r2 = a[row0123.z + k];
      x.r3 = a[row0123.w + k];
    }
    if (ROWS > 4) {
      x.r4 = a[row4567.x + k];
      x.r5 = a[row4567.y + k];
      x.r6 = a[row4567.z + k];
      x.r7 = a[row4567.w + k];
    }
    left_sum = add_rows(left_sum, x, left_at, own.y);
    right_sum = add_rows(right_sum, x, right_at, beside.y);
    left_at += 4 * own.y;
    right_at += 4 * beside.y;
  }
  store_rows(row, rows, left, left_sum);
  store_rows(row, rows, right, right_sum);
}
