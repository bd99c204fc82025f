// Measures the adapter's peak rate of multiply-adds. Three vec4s per thread stay in registers, on a CPU too.

struct Params {
  turns: u32, // loop iterations, 48 fused multiply-adds each
}

override WORKGROUP: u32 = 64; // threads

@group(0) @binding(0) var<storage, read> a: array<vec4f>;         // [1]: a factor below 1
@group(0) @binding(1) var<storage, read_write> out: array<vec4f>; // [threads]
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let x = vec4f(a[0].x);
  let y = vec4f(f32(id.x));
  var s0 = y + vec4f(0.0, 1.0, 2.0, 3.0);
  var s1 = s0 + 4.0;
  var s2 = s0 + 8.0;
  for (var i = 0u; i < params.turns; i++) {
    s0 = fma(s0, x, y);
    s1 = fma(s1, x, y);
    s2 = fma(s2, x, y);
    s0 = fma(s0, x, y);
    s1 = fma(s1, x, y);
    s2 = fma(s2, x, y);
    s0 = fma(s0, x, y);
    s1 = fma(s1, x, y);
    s2 = fma(s2, x, y);
    s0 = fma(s0, x, y);
    s1 = fma(s1, x, y);
    s2 = fma(s2, x, y);
  }
  out[id.x] = s0 + s1 + s2;
}
