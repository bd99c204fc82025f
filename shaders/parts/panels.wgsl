// Weights are stored in panels of columns, one after the other, each row by row, so that what a workgroup reads is
// contiguous.

// Index of a column's first element, and the distance between its rows. All in one unit: columns, or groups of them.
fn in_panels(column: u32, columns: u32, panel: u32, rows: u32) -> vec2<u32> {
  let first = column - column % panel;
  return vec2(first * rows + column - first, min(panel, columns - first));
}
