// Weights lie in panels of columns, one after the other, row by row, so that what a workgroup reads lies together.

// Where a column begins, and how far apart its rows are. All in one unit: columns, or several of them at once.
fn in_panels(column: u32, columns: u32, panel: u32, rows: u32) -> vec2<u32> {
  let first = column - column % panel;
  return vec2(first * rows + column - first, min(panel, columns - first));
}
