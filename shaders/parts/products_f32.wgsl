// Products of the matrix kernels in f32: one fma per term, k ascending. Contains all that differs from products_f16.wgsl.

alias Input = vec4f;      // four k of a row of a
alias Weight = vec4f;     // four columns of a k, or four k of a column
alias Weights4 = mat4x4f; // the same for four k

fn to_input(x: vec4f) -> Input {
  return x;
}

fn to_weight(w: vec4f) -> Weight {
  return w;
}

fn packed_weight(halves: vec2<u32>) -> Weight {
  return vec4f(unpack2x16float(halves.x), unpack2x16float(halves.y));
}

fn add_products(sum: vec4f, x: Input, w: Weights4) -> vec4f {
  return fma(vec4f(x.w), w[3], fma(vec4f(x.z), w[2], fma(vec4f(x.y), w[1], fma(vec4f(x.x), w[0], sum))));
}
