/** Draws an engine's pool or a store's memory as a grid. A cell is one or several blocks, filled from below: used, held, cached. */
import type { Occupancy } from '../../../src/engine/inspect/occupancy.ts';
import type { Palette } from '../views/palette.ts';

const WHOLE = 255;
const LEAST_CELL = 5;
/** So that a few blocks in a wide area stay small. */
const MOST_CELL = 24;

export interface PoolLayout {
  columns: number;
  cell: number;
  height: number;
}

/** Square cells in as many rows as needed. */
export function layoutPool(width: number, cells: number): PoolLayout {
  const columns = Math.max(8, Math.min(32, Math.floor(width / LEAST_CELL), Math.ceil(Math.sqrt(cells * 2))));
  const cell = Math.min(MOST_CELL, width / columns);
  return { columns, cell, height: Math.ceil(Math.ceil(cells / columns) * cell) };
}

export function drawPool(
  context: CanvasRenderingContext2D,
  { columns, cell }: PoolLayout,
  { used, held, cached }: Occupancy,
  accent: string,
  palette: Palette,
): void {
  const size = cell - 1;
  const parts = [
    [used, accent, 1],
    [held, palette.pull, 1],
    [cached, accent, 0.28],
  ] as const;
  const tops = new Float64Array(used.length);
  context.fillStyle = palette.sunken;
  for (let i = 0; i < used.length; i++)
    context.fillRect((i % columns) * cell, Math.floor(i / columns) * cell, size, size);
  for (const [shares, colour, alpha] of parts) {
    context.fillStyle = colour;
    context.globalAlpha = alpha;
    for (let i = 0; i < shares.length; i++) {
      if (shares[i] === 0) continue;
      const height = (size * shares[i]!) / WHOLE;
      tops[i]! += height;
      const y = Math.floor(i / columns) * cell + size - tops[i]!;
      context.fillRect((i % columns) * cell, y, size, height);
    }
  }
  context.globalAlpha = 1;
}
