// Measures the adapter's peak read rate: every thread sums vec4s of a large buffer and writes one.

struct Params {
  count: u32,    // vec4s a thread reads, a multiple of 8
  stride: u32,   // vec4s between two reads of a thread
  offset: u32,   // vec4s between two threads' first reads
}

override WORKGROUP: u32 = 64; // threads

@group(0) @binding(0) var<storage, read> a: array<vec4f>;         // [threads * count]
@group(0) @binding(1) var<storage, read_write> out: array<vec4f>; // [threads]
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  var s0 = vec4f();
  var s1 = vec4f();
  var s2 = vec4f();
  var s3 = vec4f();
  var at = id.x * params.offset;
  for (var i = 0u; i < params.count; i += 8u) {
    s0 += a[at] + a[at + 4 * params.stride];
    s1 += a[at + params.stride] + a[at + 5 * params.stride];
    s2 += a[at + 2 * params.stride] + a[at + 6 * params.stride];
    s3 += a[at + 3 * params.stride] + a[at + 7 * params.stride];
    at += 8 * params.stride;
  }
  out[id.x] = (s0 + s1) + (s2 + s3);
}
