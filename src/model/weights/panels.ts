/**
 * The memory layout of a matrix: panels of columns, one after the other, each row by row, so that what a workgroup
 * reads is contiguous.
 */
import { pad4 } from '../types.ts';

/**
 * Columns of a panel; the last panel has the rest. Every form of the matrix kernel computes whole panels, or a part of
 * one.
 */
export const PANEL_COLUMNS = 64;

interface Shape {
  rows: number;
  columns: number;
}

/** A part of a panel: its columns, the index of its first element, and the stride between its rows, in elements. */
export interface PanelPart {
  first: number;
  count: number;
  at: number;
  stride: number;
}

/** The parts that hold columns [first, first + count). */
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

/** Index of one element. */
export function elementPlace({ rows, columns }: Shape, row: number, column: number): number {
  const panel = column - (column % PANEL_COLUMNS);
  return panel * pad4(rows) + row * Math.min(PANEL_COLUMNS, pad4(columns) - panel) + column - panel;
}
