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
import { layoutStore } from '../../../demo/src/views/stage/draw-store.ts';
import { emptyBlock } from '../../../src/recording/empty-block.ts';

const box = { x: 10, y: 20, width: 300, height: 200 };

describe('a grid of blocks', () => {
  it.each([1, 7, 63, 64, 129, 500, 2048])('fits %i cells into its box without overlap', (count) => {
    const layout = layoutGrid(count, box);
    expect(layout.columns * layout.rows).toBeGreaterThanOrEqual(count);
    expect(layout.columns * (layout.cell + layout.gap) - layout.gap).toBeLessThanOrEqual(box.width);
    const corners = new Set(
      Array.from({ length: count }, (_, i) => `${cellBox(layout, i).x} ${cellBox(layout, i).y}`),
    );
    expect(corners.size).toBe(count);
  });

  it('uses the largest cells that fit', () => {
    const layout = layoutGrid(64, box);
    const larger = layout.cell + 1 + layout.gap;
    const columns = Math.floor((box.width + layout.gap) / larger);
    expect(Math.ceil(64 / columns) * larger - layout.gap).toBeGreaterThan(box.height);
  });

  it('finds each cell at its centre, and none outside', () => {
    const layout = layoutGrid(50, box);
    for (let i = 0; i < 50; i++) expect(cellAt(layout, centre(cellBox(layout, i)))).toBe(i);
    expect(cellAt(layout, { x: 5, y: 25 })).toBeNull();
    expect(cellAt(layout, { x: 15, y: 5 })).toBeNull();
    const beyond = cellBox(layout, 49);
    expect(cellAt(layout, { x: beyond.x + layout.cell + layout.gap + 1, y: beyond.y + 1 })).toBeNull();
  });

  it('moves by arrow keys, and returns null at its edges', () => {
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

  it('puts them below each other on a phone', () => {
    const { direction, prefill, slab, decode } = layoutStage(350, { prefill: 64, decode: 64 });
    expect(direction).toBe('down');
    expect(prefill.box.y + heightOf(prefill)).toBeLessThanOrEqual(slab.y);
    expect(slab.y + slab.height).toBeLessThanOrEqual(decode.box.y);
  });

  it('stacks the slab’s two ways if large text does not fit side by side', () => {
    const counts = { prefill: 64, decode: 64 };
    expect(layoutStage(350, counts).ways).toBe('beside');
    const large = layoutStage(350, counts, 18);
    expect(large.ways).toBe('stacked');
    // Twice: a name, the slots and two lines.
    expect(large.slab.height).toBeGreaterThan(2 * (12 + 4 * 18));
  });

  it.each([860, 350])('makes room for a store between P and D at %i pixels wide', (width) => {
    const counts = { prefill: 64, decode: 64 };
    const { prefill, slab, store, decode, height, direction } = layoutStage(width, counts, 0, true);
    expect(store!.y).toBeGreaterThanOrEqual(slab.y + slab.height);
    expect(store!.y + store!.height).toBeLessThanOrEqual(height);
    if (direction === 'across') {
      const right = cellBox(prefill, prefill.columns - 1);
      expect(right.x + right.width).toBeLessThanOrEqual(store!.x);
      expect(store!.x + store!.width).toBeLessThanOrEqual(decode.box.x);
    } else expect(store!.y + store!.height).toBeLessThanOrEqual(decode.box.y);
    expect(layoutStage(width, counts).store).toBeNull();
  });

  it.each([200, 340])('fits a store and its folder into a box %i pixels wide', (width) => {
    const blocks = Array.from({ length: 65 }, (_, id) => ({ ...emptyBlock(id), state: 'cached' as const }));
    const counts = { slots: 64, blockBytes: 1, blocks: 64, lookups: 0, hits: 0, stored: 64, evicted: 0 };
    const files = { blocks: 64, bytes: 1, read: 0, written: 64, broken: 0, expired: 0, leftOut: 0 };
    const figures = { ...counts, twoHopBytes: 0, queues: null, folder: files };
    const room = { x: 0, y: 100, width, height: 140 };
    const layout = layoutStore(room, { figures, memory: blocks, folder: blocks }, 0);
    expect(layout.memory.count).toBe(64);
    const [memory, folder] = [layout.memory, layout.folder!];
    const below = memory.box.y + heightOf(memory);
    expect(below + layout.lineHeight).toBeLessThanOrEqual(folder.box.y);
    // The line about the last move is below it.
    expect(folder.box.y + heightOf(folder)).toBeLessThanOrEqual(room.y + room.height - layout.lineHeight);
  });
});
