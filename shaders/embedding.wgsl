// x[row][j] = scale * weights[j][token of row]. A token is one column of the [hidden][vocab] matrix, which a tied LM
// head reads too. A matrix too large for one binding comes in pieces of columns; each piece is one dispatch that writes
// the rows whose tokens it has.
// Parts: panels, step.

struct Params {
  hidden4: u32, // hidden size / 4, vec4s
  vocab4: u32,  // columns of this piece / 4, vec4s
  first: u32,   // token id of the piece's first column
  scale: f32,   // factor applied to embeddings
  panel: u32,   // columns per panel
}

override WORKGROUP: u32 = 64;       // threads along the hidden size
override WEIGHTS_F32: bool = false; // else two halves per u32

@group(0) @binding(0) var<storage, read> tokens: array<vec4<u32>>; // [rows]: token id, position, slot, unused
@group(0) @binding(1) var<storage, read> weights: array<u32>;      // [panel][4 * hidden4][its columns]
@group(0) @binding(2) var<storage, read_write> x: array<vec4f>;    // [rows][hidden4]
@group(0) @binding(3) var<uniform> params: Params;
@group(0) @binding(4) var<uniform> step: Step;

fn weight(index: u32) -> f32 {
  if (WEIGHTS_F32) {
    return bitcast<f32>(weights[index]);
  }
  let halves = unpack2x16float(weights[index / 2]);
  return select(halves.x, halves.y, (index & 1) == 1);
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let row = id.y;
  if (row >= step.rows || id.x >= params.hidden4) {
    return;
  }
  let columns = 4 * params.vocab4;
  let column = tokens[row].x - params.first;
  if (column >= columns) { // true also if it wraps: the token is in another piece
    return;
  }
  let place = in_panels(column, columns, params.panel, 4 * params.hidden4);
  let stride = place.y;
  let at = place.x + 4 * id.x * stride;
  x[row * params.hidden4 + id.x] = params.scale *
    vec4f(weight(at), weight(at + stride), weight(at + 2 * stride), weight(at + 3 * stride));
}
