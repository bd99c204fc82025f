/** Draws the store between P and D: the cells of its memory and folder, and blocks moving to and from it. */
import type { BlockView, Role, StoreView, TransferView } from '../../session/types.ts';
import { font } from '../fonts.ts';
import * as format from '../format.ts';
import { type Box, cellBox, type GridLayout, heightOf, layoutGrid, type StageLayout } from '../geometry.ts';
import type { Palette } from '../palette.ts';
import { roundRect } from './draw-block.ts';
import { type Flight, pointOnWay, progressOf } from './flights.ts';

/** A load (store to engine) or a save (engine to store). */
export interface StoreFlight extends Flight {
  role: Role;
  loads: boolean;
}

export interface StoreModel {
  store: StoreView;
  /** Cells of its memory whose blocks are still in flight. */
  awaited: ReadonlySet<number>;
  /** The last load or save, with the engine's letter. */
  last: { transfer: TransferView; loads: boolean; letter: 'P' | 'D' } | null;
  newestTurn: number;
}

export interface StoreLayout {
  memory: GridLayout;
  /** null: the store has no folder. */
  folder: GridLayout | null;
  lineHeight: number;
}

/** At least this many cells are drawn, and more as the store fills. */
const LEAST_CELLS = 32;
const QUEUES_HEIGHT = 4;

const cellsFor = (blocks: readonly BlockView[], most: number): number => {
  const used = blocks.findLastIndex(({ state }) => state !== 'free' && state !== 'null');
  return Math.min(most, Math.max(LEAST_CELLS, 2 ** Math.ceil(Math.log2(Math.max(1, used)))));
};

export function layoutStore({ x, y, width, height }: Box, store: StoreView, least: number): StoreLayout {
  const lineHeight = Math.max(15, least + 3);
  const { slots, folder } = store.figures;
  const inner = { x: x + 10, width: width - 20 };
  const lines = folder ? 3 : 2;
  const room = height - lines * lineHeight - QUEUES_HEIGHT - 20;
  const memoryHeight = folder ? room * 0.55 : room;
  const top = y + lineHeight + QUEUES_HEIGHT + 6;
  const memory = layoutGrid(cellsFor(store.memory, slots), { ...inner, y: top, height: memoryHeight });
  if (!folder) return { memory, folder: null, lineHeight };
  const below = top + heightOf(memory) + lineHeight + 5;
  const count = cellsFor(store.folder, Number.POSITIVE_INFINITY);
  const box = { ...inner, y: below, height: Math.max(10, room - heightOf(memory)) };
  return { memory, folder: layoutGrid(count, box), lineHeight };
}

export function drawStore(
  context: CanvasRenderingContext2D,
  box: Box,
  layout: StoreLayout,
  model: StoreModel,
  palette: Palette,
): void {
  const { figures, memory, folder } = model.store;
  roundRect(context, { x: box.x + 3, y: box.y, width: box.width - 6, height: box.height }, 6);
  context.fillStyle = palette.sunken;
  context.fill();
  const left = box.x + 10;
  const inMemory = `store: ${figures.blocks} of ${format.plural(figures.slots, 'block')}`;
  write(context, inMemory, left, box.y + layout.lineHeight - 2, palette.storeInk, palette, 600);
  drawQueues(context, box, layout, figures, palette);
  drawCells(context, layout.memory, memory, model, palette, 1);
  if (layout.folder && figures.folder) {
    const { y } = layout.folder.box;
    const text = `folder: ${format.plural(figures.folder.blocks, 'block')}, ${format.bytes(figures.folder.bytes)}`;
    write(context, text, left, y - 5, palette.ink2, palette);
    drawCells(context, layout.folder, folder, { ...model, awaited: new Set() }, palette, 0.55);
  }
  write(context, lastInWords(model.last), left, box.y + box.height - 6, palette.ink2, palette);
}

function write(
  context: CanvasRenderingContext2D,
  text: string,
  x: number,
  y: number,
  colour: string,
  palette: Palette,
  weight = 400,
): void {
  context.textAlign = 'left';
  context.textBaseline = 'alphabetic';
  context.fillStyle = colour;
  context.font = font(palette, 12, weight);
  context.fillText(text, x, y);
}

function lastInWords(last: StoreModel['last']): string {
  if (!last) return 'nothing moved yet';
  const { transfer, loads, letter } = last;
  const blocks = format.plural(transfer.pairs.length, 'block');
  const what = loads ? `loaded ${blocks} to ${letter}` : `saved ${blocks} of ${letter}`;
  if (transfer.endMs === null) return what;
  if (transfer.outcome !== 'done') return `${what}: ${transfer.outcome}`;
  const modelled = transfer.throttled ? ', modelled' : '';
  return `${what} in ${format.ms(transfer.endMs - transfer.startMs)}${modelled}`;
}

/** The eviction policy's queues in memory: new blocks, and blocks that were used again. */
function drawQueues(
  context: CanvasRenderingContext2D,
  box: Box,
  { lineHeight }: StoreLayout,
  { queues, slots }: StoreView['figures'],
  palette: Palette,
): void {
  const bar = { x: box.x + 10, y: box.y + lineHeight + 2, width: box.width - 20, height: QUEUES_HEIGHT };
  context.fillStyle = palette.line;
  context.fillRect(bar.x, bar.y, bar.width, bar.height);
  if (!queues) return;
  const { small = 0, main = 0 } = queues;
  const width = (count: number): number => (bar.width * count) / Math.max(1, slots);
  context.fillStyle = palette.store;
  context.fillRect(bar.x, bar.y, width(main), bar.height);
  context.globalAlpha = 0.5;
  context.fillRect(bar.x + width(main), bar.y, width(small), bar.height);
  context.globalAlpha = 1;
}

function drawCells(
  context: CanvasRenderingContext2D,
  grid: GridLayout,
  blocks: readonly BlockView[],
  { awaited, newestTurn }: Pick<StoreModel, 'awaited' | 'newestTurn'>,
  palette: Palette,
  strength: number,
): void {
  for (let cell = 0; cell < grid.count; cell++) {
    const block = blocks[cell + 1];
    const { x, y, width } = cellBox(grid, cell);
    const there = block && block.state !== 'free' && !awaited.has(block.id);
    if (!there || block.state === 'arriving') {
      context.strokeStyle = block && block.state !== 'free' ? palette.store : palette.lineStrong;
      context.lineWidth = 1;
      context.strokeRect(x + 0.5, y + 0.5, width - 1, width - 1);
      continue;
    }
    const age = block.turn === null ? 4 : Math.min(4, Math.max(0, newestTurn - block.turn));
    context.globalAlpha = strength * (1 - 0.12 * age);
    // Of a conversation that this page knows nothing of.
    context.fillStyle = block.conversation === null ? palette.ink3 : palette.store;
    roundRect(context, { x, y, width, height: width });
    context.fill();
    context.globalAlpha = 1;
    if (block.state === 'held') {
      context.strokeStyle = palette.ink;
      context.lineWidth = 1.5;
      context.strokeRect(x + 1, y + 1, width - 2, width - 2);
    }
  }
}

/** The point on the store's edge that faces an engine. */
function port(box: Box, { direction }: StageLayout, role: Role): Box {
  const first = role === 'prefill';
  if (direction === 'across')
    return { x: first ? box.x : box.x + box.width, y: box.y + box.height / 2, width: 0, height: 0 };
  return { x: box.x + box.width / 2, y: first ? box.y : box.y + box.height, width: 0, height: 0 };
}

export function drawStoreFlights(
  context: CanvasRenderingContext2D,
  stage: StageLayout,
  box: Box,
  { memory }: StoreLayout,
  flights: readonly StoreFlight[],
  palette: Palette,
): void {
  for (const flight of flights) {
    const { role, loads, pairs, failed } = flight;
    const grid = stage[role];
    const over = port(box, stage, role);
    context.fillStyle = failed ? palette.bad : palette.store;
    context.strokeStyle = palette.surface;
    context.lineWidth = 1.5;
    const size = Math.max(6, Math.min(grid.cell, 18));
    pairs.forEach(([holder, reader], i) => {
      const progress = progressOf(flight, i);
      if (progress <= 0 || progress >= 1) return;
      const inStore = cellBox(memory, Math.min((loads ? holder : reader) - 1, memory.count - 1));
      const inEngine = cellBox(grid, loads ? reader : holder);
      const [from, to] = loads ? [inStore, inEngine] : [inEngine, inStore];
      const { x, y } = pointOnWay(from, over, to, progress);
      roundRect(context, { x: x - size / 2, y: y - size / 2, width: size, height: size }, 3);
      context.fill();
      context.stroke();
    });
  }
}
