/** A grid of blocks kept as an image: only blocks whose look has changed are drawn again. */
import type { BlockView } from '../../session/types.ts';
import type { Frame } from '../frame.ts';
import { cellBox, type GridLayout } from '../geometry.ts';
import type { Palette } from '../palette.ts';
import { type BlockLook, drawBlock, markKey } from './draw-block.ts';

export interface DrawnBlock {
  block: BlockView;
  look: BlockLook;
}

export class BlockLayer {
  readonly #context: CanvasRenderingContext2D;
  /** The key of what is drawn in each cell. */
  #marks: string[] = [];
  #palette: Palette | null = null;
  #grid = '';

  constructor(canvas = document.createElement('canvas')) {
    this.#context = canvas.getContext('2d')!;
  }

  /** `cells` are in the grid's order. */
  draw({ context, palette, width }: Frame, grid: GridLayout, cells: Iterable<DrawnBlock>): void {
    const { canvas } = this.#context;
    const scale = context.canvas.width / width;
    const asked = JSON.stringify([grid, scale, context.canvas.height]);
    if (asked !== this.#grid || palette !== this.#palette) {
      [this.#grid, this.#palette, this.#marks] = [asked, palette, []];
      // Setting the size also clears the canvas.
      canvas.width = context.canvas.width;
      canvas.height = context.canvas.height;
      this.#context.setTransform(scale, 0, 0, scale, 0, 0);
    }
    let cell = 0;
    for (const { block, look } of cells) {
      const mark = markKey(block, look);
      if (mark !== this.#marks[cell]) this.#drawCell(grid, cell, { block, look }, palette);
      this.#marks[cell++] = mark;
    }
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(canvas, 0, 0);
    context.restore();
  }

  /** Clipped to the cell and its share of the gaps, so that no other cell is touched. */
  #drawCell(grid: GridLayout, cell: number, { block, look }: DrawnBlock, palette: Palette): void {
    const context = this.#context;
    const box = cellBox(grid, cell);
    const before = Math.floor(grid.gap / 2);
    const pitch = grid.cell + grid.gap;
    const own = [box.x - before, box.y - before, pitch, pitch] as const;
    context.save();
    context.beginPath();
    context.rect(...own);
    context.clip();
    context.clearRect(...own);
    drawBlock(context, box, block, look, palette);
    context.restore();
  }
}
