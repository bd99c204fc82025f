/** A block grid kept as a picture: only changed cells are redrawn. */
import { expect, test } from 'vitest';
import type { BlockView } from '../../../demo/src/session/types.ts';
import type { Frame } from '../../../demo/src/views/frame.ts';
import { cellBox, layoutGrid } from '../../../demo/src/views/geometry.ts';
import type { Palette } from '../../../demo/src/views/palette.ts';
import { BlockLayer } from '../../../demo/src/views/stage/block-layer.ts';
import type { BlockLook } from '../../../demo/src/views/stage/draw-block.ts';
import { emptyBlock } from '../../../src/recording/empty-block.ts';

/** A canvas that records which boxes were cleared and how many images were drawn. */
function fakeCanvas(width: number, height: number) {
  const wiped: number[][] = [];
  let copied = 0;
  const canvas = { width, height };
  const context = new Proxy({ canvas } as Record<string, unknown>, {
    get: (known, name: string) => {
      if (name in known) return known[name];
      if (name === 'clearRect') return (...box: number[]) => wiped.push(box);
      if (name === 'drawImage') return () => copied++;
      return () => {};
    },
  }) as unknown as CanvasRenderingContext2D;
  Object.assign(canvas, { getContext: () => context });
  return { canvas: canvas as unknown as HTMLCanvasElement, context, wiped, copied: () => copied };
}

const still: Omit<BlockLook, 'newestTurn'> = {
  ...{ role: 'prefill', conversation: 0, awaited: false, evictedGlow: 0 },
  ...{ fade: 1, stored: false, wrong: false },
};

function layered() {
  const shown = fakeCanvas(600, 200);
  const layer = fakeCanvas(300, 150);
  const picture = new BlockLayer(layer.canvas);
  const grid = layoutGrid(100, { x: 4, y: 4, width: 292, height: 92 });
  let blocks: BlockView[] = Array.from({ length: 100 }, (_, id) => ({
    ...emptyBlock(id),
    ...{ state: 'computed', origin: 'computed', turn: 1 + (id % 2) },
  }));
  let palette = { least: 0 } as Palette;
  /** Draws, and returns the cells that were redrawn. */
  const draw = (newestTurn = 6, look: Partial<BlockLook> = {}) => {
    layer.wiped.length = 0;
    const frame: Frame = { context: shown.context, width: 300, height: 100, palette, elapsedMs: 0 };
    const cells = blocks.map((block) => ({ block, look: { ...still, newestTurn, ...look } }));
    picture.draw(frame, grid, cells);
    return layer.wiped.map(([x, y, width, height]) =>
      blocks.findIndex((_, cell) => {
        const box = cellBox(grid, cell);
        return x! <= box.x && y! <= box.y && box.x < x! + width! && box.y < y! + height!;
      }),
    );
  };
  const change = (id: number, to: Partial<BlockView>) => {
    blocks = blocks.map((block) => (block.id === id ? { ...block, ...to } : block));
  };
  const recolour = () => {
    palette = { ...palette };
  };
  return { draw, change, recolour, shown, layer };
}

const all = Array.from({ length: 100 }, (_, i) => i);

test('the first draw redraws all cells, later ones only changed cells, and each shows the whole picture', () => {
  const { draw, change, shown, layer } = layered();
  expect(draw()).toEqual(all);
  expect([layer.canvas.width, layer.canvas.height]).toEqual([600, 200]);
  expect(draw()).toEqual([]);
  change(7, { state: 'cached' });
  change(40, { heldFor: 'decode' });
  expect(draw()).toEqual([7, 40]);
  change(7, { turn: 6 });
  expect(draw()).toEqual([7]);
  // An invisible change of a block does not count.
  change(8, { text: 'other words' });
  expect(draw()).toEqual([]);
  expect(shown.copied()).toBe(5);
});

test('a new palette redraws all cells, and a newer turn only those that become fainter', () => {
  const { draw, recolour } = layered();
  draw();
  recolour();
  expect(draw()).toEqual(all);
  expect(draw(7)).toEqual([]);
  // Cells of turn 2, three turns ago.
  expect(draw(5)).toEqual(all.filter((id) => id % 2 === 1));
});

test.each([
  { stored: true },
  { wrong: true },
  { awaited: true },
  { fade: 0.5 },
  { conversation: 1 },
  { role: 'decode' },
] as const)('a change of every cell’s look redraws all cells: %j', (look) => {
  const { draw } = layered();
  draw();
  expect(draw(6, look)).toEqual(all);
});
