import { describe, expect, it } from 'vitest';
import {
  cellAt,
  cellBox,
  centre,
  heightOf,
  layoutGrid,
  layoutStage,
  neighbour,
} from '../../../demo/src/views/geometry.ts';

const box = { x: 10, y: 20, width: 300, height: 200 };

describe('a grid of blocks', () => {
  it.each([1, 7, 63, 64, 129, 500, 2048])('fits %i cells into its box, all of them apart', (count) => {
    const layout = layoutGrid(count, box);
    expect(layout.columns * layout.rows).toBeGreaterThanOrEqual(count);
    expect(layout.columns * (layout.cell + layout.gap) - layout.gap).toBeLessThanOrEqual(box.width);
    const corners = new Set(
      Array.from({ length: count }, (_, i) => `${cellBox(layout, i).x} ${cellBox(layout, i).y}`),
    );
    expect(corners.size).toBe(count);
  });

  it('takes the largest cells that fit', () => {
    const layout = layoutGrid(64, box);
    const larger = layout.cell + 1 + layout.gap;
    const columns = Math.floor((box.width + layout.gap) / larger);
    expect(Math.ceil(64 / columns) * larger - layout.gap).toBeGreaterThan(box.height);
  });

  it('finds each cell at its own middle, and none outside', () => {
    const layout = layoutGrid(50, box);
    for (let i = 0; i < 50; i++) expect(cellAt(layout, centre(cellBox(layout, i)))).toBe(i);
    expect(cellAt(layout, { x: 5, y: 25 })).toBeNull();
    expect(cellAt(layout, { x: 15, y: 5 })).toBeNull();
    const beyond = cellBox(layout, 49);
    expect(cellAt(layout, { x: beyond.x + layout.cell + layout.gap + 1, y: beyond.y + 1 })).toBeNull();
  });

  it('walks by arrow keys and says when it would leave', () => {
    const layout = { ...layoutGrid(10, box), columns: 4, rows: 3 };
    expect(neighbour(layout, 0, 'ArrowLeft')).toBeNull();
    expect(neighbour(layout, 3, 'ArrowRight')).toBeNull();
    expect(neighbour(layout, 5, 'ArrowUp')).toBe(1);
    expect(neighbour(layout, 5, 'ArrowDown')).toBe(9);
    expect(neighbour(layout, 7, 'ArrowDown')).toBeNull();
    expect(neighbour(layout, 9, 'ArrowRight')).toBeNull();
    expect(neighbour(layout, 5, 'End')).toBe(9);
  });
});

describe('the stage', () => {
  it('puts P, slab and D side by side without overlap on a wide screen', () => {
    const { direction, prefill, slab, decode, height } = layoutStage(860, { prefill: 64, decode: 64 });
    expect(direction).toBe('across');
    const right = cellBox(prefill, prefill.columns - 1);
    expect(right.x + right.width).toBeLessThanOrEqual(slab.x);
    expect(slab.x + slab.width).toBeLessThanOrEqual(decode.box.x);
    expect(decode.box.y + heightOf(decode)).toBeLessThanOrEqual(height);
  });

  it('puts them one below the other on a phone', () => {
    const { direction, prefill, slab, decode } = layoutStage(350, { prefill: 64, decode: 64 });
    expect(direction).toBe('down');
    expect(prefill.box.y + heightOf(prefill)).toBeLessThanOrEqual(slab.y);
    expect(slab.y + slab.height).toBeLessThanOrEqual(decode.box.y);
  });
});
