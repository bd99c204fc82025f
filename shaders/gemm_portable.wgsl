// out[row][n] = bias[n] + sum over k of a[row][k] * weights[k][n], for adapters without a fixed subgroup size.
// A thread computes 1, 4 or 8 rows of 4 columns, written out:
// a software adapter keeps an array in memory. One order of sums: k ascends, one fma a term, whatever ROWS.
// Parts: gemm_params, step.

override WORKGROUP: u32 = 32;       // threads along the columns
override ROWS: u32 = 4;             // rows a thread computes: 1, 4 or 8
override WEIGHTS_F32: bool = false; // else two halves a u32

@group(0) @binding(0) var<storage, read> a: array<vec4f>;           // [rows][inputs4]
@group(0) @binding(1) var<storage, read> weights: array<vec2<u32>>; // [4 * inputs4][columns4]; f32: two vec2 a vec4
@group(0) @binding(2) var<storage, read> bias: array<vec4f>;        // [columns4]
@group(0) @binding(3) var<storage, read_write> out: array<vec4f>;   // [rows][columns4]
@group(0) @binding(4) var<uniform> params: Params;
@group(0) @binding(5) var<uniform> step: Step;

fn weight(index: u32) -> vec4f {
  if (WEIGHTS_F32) {
    return bitcast<vec4f>(vec4<u32>(weights[2 * index], weights[2 * index + 1]));
  }
  let halves = weights[index];
  return vec4f(unpack2x16float(halves.x), unpack2x16float(halves.y));
}

fn add_products(sum: vec4f, x: vec4f, w0: vec4f, w1: vec4f, w2: vec4f, w3: vec4f) -> vec4f {
  return fma(vec4f(x.w), w3, fma(vec4f(x.z), w2, fma(vec4f(x.y), w1, fma(vec4f(x.x), w0, sum))));
}

fn store(row: u32, rows: u32, n: u32, sum: vec4f) {
  if (row < rows) {
    out[row * params.columns4 + n] = select(sum, sum + bias[n], params.use_bias == 1);
  }
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let rows = select(step.rows, step.logit_rows, params.count == 1);
  let n = id.x;
  let row = id.y * ROWS;
  if (n >= params.columns4 || row >= rows) {
    return;
  }
  // Rows past the end compute the last row again and are not stored.
  let a0 = row * params.inputs4;
  let a1 = min(row + 1, rows - 1) * params.inputs4;
  let a2 = min(row + 2, rows - 1) * params.inputs4;
  let a3 = min(row + 3, rows - 1) * params.inputs4;
  let a4 = min(row + 4, rows - 1) * params.inputs4;
  let a5 = min(row + 5, rows - 1) * params.inputs4;
  let a6 = min(row + 6, rows - 1) * params.inputs4;
  let a7 = min(row + 7, rows - 1) * params.inputs4;
  var sum0 = vec4f();
  var sum1 = vec4f();
  var sum2 = vec4f();
  var sum3 = vec4f();
  var sum4 = vec4f();
  var sum5 = vec4f();
  var sum6 = vec4f();
  var sum7 = vec4f();
  var at = n;
  for (var k = 0u; k < params.inputs4; k++) {
    let w0 = weight(at);
    let w1 = weight(at + params.columns4);
    let w2 = weight(at + 2 * params.columns4);
    let w3 = weight(at + 3 * params.columns4);
    at += 4 * params.columns4;
    sum0 = add_products(sum0, a[a0 + k], w0, w1, w2, w3);
    if (ROWS > 1) {
      sum1 = add_products(sum1, a[a1 + k], w0, w1, w2, w3);
      sum2 = add_products(sum2, a[a2 + k], w0, w1, w2, w3);
      sum3 = add_products(sum3, a[a3 + k], w0, w1, w2, w3);
    }
    if (ROWS > 4) {
      sum4 = add_products(sum4, a[a4 + k], w0, w1, w2, w3);
      sum5 = add_products(sum5, a[a5 + k], w0, w1, w2, w3);
      sum6 = add_products(sum6, a[a6 + k], w0, w1, w2, w3);
      sum7 = add_products(sum7, a[a7 + k], w0, w1, w2, w3);
    }
  }
  store(row, rows, n, sum0);
  if (ROWS > 1) {
    store(row + 1, rows, n, sum1);
    store(row + 2, rows, n, sum2);
    store(row + 3, rows, n, sum3);
  }
  if (ROWS > 4) {
    store(row + 4, rows, n, sum4);
    store(row + 5, rows, n, sum5);
    store(row + 6, rows, n, sum6);
    store(row + 7, rows, n, sum7);
  }
}
