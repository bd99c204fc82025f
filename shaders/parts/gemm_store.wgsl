// End of the matrix kernel: stores a vec4 of the product in out, or adds it.

@group(0) @binding(6) var<storage, read_write> out: array<vec4f>; // [rows][stride4]

fn store(row: u32, n: u32, product: vec4f) {
  let to = row * params.stride4 + params.first4 + n;
  var v = biased(n, product);
  if (params.add == 1) {
    v += out[to];
  }
  out[to] = v;
}
