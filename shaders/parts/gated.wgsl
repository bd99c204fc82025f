// The gate's activation times up. GELU is the tanh approximation: x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)).

override GELU: bool = false; // else silu

fn gated(gate: vec4f, up: vec4f) -> vec4f {
  var slope = gate;
  if (GELU) {
    let curved = fma(0.044715 * gate * gate, gate, gate);
    slope = max(1.5957691216057308 * curved, vec4f(-88.0)); // exp(89) overflows
  }
  return gate / (1.0 + exp(-slope)) * up;
}
