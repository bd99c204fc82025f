/** How a matrix's elements lie: in panels of columns, one after the other, each row by row, so that what a workgroup reads lies together. */
import { pad4 } from './types.ts';

/** Columns a panel; the last has what is left. Every form of the matrix kernel computes a whole number of panels, or a part of one. */
export const PANEL_COLUMNS = 64;

interface Shape {
  rows: number;
  columns: number;
}

/** A part of a panel: where its first column begins, and how far apart its rows are, in elements. */
export interface PanelPart {
  first: number;
  count: number;
  at: number;
  stride: number;
}

/** Columns first .. first + count, panel by panel. */
export function panelParts({ rows, columns }: Shape, first: number, count: number): PanelPart[] {
  const parts: PanelPart[] = [];
  for (let column = first; column < first + count; ) {
    const panel = column - (column % PANEL_COLUMNS);
    const end = Math.min(panel + PANEL_COLUMNS, first + count);
    const stride = Math.min(PANEL_COLUMNS, pad4(columns) - panel);
    parts.push({
      first: column,
      count: end - column,
      at: panel * pad4(rows) + column - panel,
      stride,
    });
    column = end;
  }
  return parts;
}

/** Where one element lies. */
export function elementPlace({ rows, columns }: Shape, row: number, column: number): number {
  const panel = column - (column % PANEL_COLUMNS);
  return panel * pad4(rows) + row * Math.min(PANEL_COLUMNS, pad4(columns) - panel) + column - panel;
}
