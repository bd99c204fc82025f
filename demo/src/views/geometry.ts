/** Boxes and points in CSS pixels, and layouts of grids of equal cells. No DOM. */

export interface Point {
  x: number;
  y: number;
}

export interface Box extends Point {
  width: number;
  height: number;
}

export const contains = (box: Box, { x, y }: Point): boolean =>
  x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height;

export const centre = (box: Box): Point => ({ x: box.x + box.width / 2, y: box.y + box.height / 2 });

export const clamp = (value: number, least: number, most: number): number =>
  Math.min(Math.max(value, least), most);

/** `count` equal square cells in a box, row by row. `cell` and `gap` are whole pixels. */
export interface GridLayout {
  box: Box;
  count: number;
  columns: number;
  rows: number;
  cell: number;
  gap: number;
}

const MAX_CELL = 44;
const MIN_CELL = 3;

/** The largest cells that fit. If not even cells of 3 pixels fit, the grid overflows the box's lower edge. */
export function layoutGrid(count: number, box: Box): GridLayout {
  for (let cell = MAX_CELL; cell >= MIN_CELL; cell--) {
    const gap = gapOf(cell);
    const columns = Math.max(1, Math.floor((box.width + gap) / (cell + gap)));
    const rows = Math.ceil(count / columns);
    if (rows * (cell + gap) - gap <= box.height || cell === MIN_CELL) {
      return { box, count, columns: Math.min(columns, Math.max(1, count)), rows, cell, gap };
    }
  }
  throw new RangeError('unreachable: the least cell always returns');
}

const gapOf = (cell: number): number => (cell >= 16 ? 3 : cell >= 8 ? 2 : 1);

export function cellBox({ box, columns, cell, gap }: GridLayout, index: number): Box {
  const pitch = cell + gap;
  return {
    x: box.x + (index % columns) * pitch,
    y: box.y + Math.floor(index / columns) * pitch,
    width: cell,
    height: cell,
  };
}

/** The cell at a point. The gaps to its right and below belong to the cell, so that every touch hits one. */
export function cellAt(layout: GridLayout, { x, y }: Point): number | null {
  const pitch = layout.cell + layout.gap;
  const column = Math.floor((x - layout.box.x) / pitch);
  const row = Math.floor((y - layout.box.y) / pitch);
  if (column < 0 || column >= layout.columns || row < 0) return null;
  const index = row * layout.columns + column;
  return index < layout.count ? index : null;
}

export type ArrowKey = 'ArrowLeft' | 'ArrowRight' | 'ArrowUp' | 'ArrowDown' | 'Home' | 'End';

export const isArrowKey = (key: string): key is ArrowKey =>
  ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End'].includes(key);

/** The cell that an arrow key moves to; null if that leaves the grid. The caller may then move to the next grid. */
export function neighbour({ count, columns }: GridLayout, index: number, key: ArrowKey): number | null {
  const column = index % columns;
  switch (key) {
    case 'ArrowLeft':
      return column === 0 ? null : index - 1;
    case 'ArrowRight':
      return column === columns - 1 || index + 1 >= count ? null : index + 1;
    case 'ArrowUp':
      return index < columns ? null : index - columns;
    case 'ArrowDown':
      return index + columns >= count ? null : index + columns;
    case 'Home':
      return 0;
    case 'End':
      return count - 1;
  }
}

/** P, the slab between, and D: side by side if there is room, else one below the other. */
export interface StageLayout {
  direction: 'across' | 'down';
  prefill: GridLayout;
  slab: Box;
  /** How the slab's two directions are placed in it. */
  ways: 'beside' | 'stacked';
  /** Below the slab; null: no store. */
  store: Box | null;
  decode: GridLayout;
  height: number;
}

const NARROW = 620;
const PADDING = 4;
const SLAB_ACROSS = 136;
const SLAB_DOWN = 118;
/** Width of one direction's text, in multiples of the smallest font size. */
export const WAY_WIDTH = 10.5;
const WAY_HEIGHT = 6;

interface Counts {
  prefill: number;
  decode: number;
}

/** Height of the slab above a store, where its directions are side by side. */
const SLAB_OVER_STORE = 98;
const STORE_DOWN = 140;

/** `least`: the smallest font size, pixels. `withStore`: leave room for a store. */
export function layoutStage(width: number, counts: Counts, least = 0, withStore = false): StageLayout {
  const layout = width < NARROW ? layoutDown : layoutAcross;
  return layout(width, counts, least, withStore);
}

function layoutAcross(width: number, counts: Counts, least: number, withStore: boolean): StageLayout {
  const slabLeast = Math.max(
    withStore ? 2 * SLAB_ACROSS : SLAB_ACROSS,
    (withStore ? 2 : 1) * WAY_WIDTH * least,
  );
  const slabMost = Math.max(withStore ? 340 : 210, slabLeast);
  const slabWidth = Math.round(clamp(width * (withStore ? 0.32 : 0.17), slabLeast, slabMost));
  const side = Math.floor((width - slabWidth - 2 * PADDING) / 2);
  const height = Math.round(clamp(width * 0.26, 190, 380));
  const box = (x: number): Box => ({ x, y: PADDING, width: side, height: height - 2 * PADDING });
  const prefill = layoutGrid(counts.prefill, box(PADDING));
  const decode = layoutGrid(counts.decode, box(PADDING + side + slabWidth));
  const used = Math.max(heightOf(prefill), heightOf(decode));
  const total = Math.max(used, withStore ? 226 : 196, (withStore ? 16 : 14) * least) + 2 * PADDING;
  const between = { x: PADDING + side, y: PADDING, width: slabWidth, height: total - 2 * PADDING };
  const top = Math.max(SLAB_OVER_STORE, 6.2 * least);
  return {
    direction: 'across',
    prefill: centred(prefill),
    slab: withStore ? { ...between, height: top } : between,
    ways: withStore ? 'beside' : 'stacked',
    store: withStore ? { ...between, y: between.y + top, height: between.height - top } : null,
    decode: centred(decode),
    height: total,
  };
}

function layoutDown(width: number, counts: Counts, least: number, withStore: boolean): StageLayout {
  const inner = width - 2 * PADDING;
  const most = clamp(width * 0.4, 110, 300);
  const prefill = layoutGrid(counts.prefill, { x: PADDING, y: PADDING, width: inner, height: most });
  const stacked = inner < 2 * WAY_WIDTH * least;
  const between = Math.max(SLAB_DOWN, (stacked ? 2 * WAY_HEIGHT : 7) * least);
  const slab = { x: PADDING, y: PADDING + heightOf(prefill), width: inner, height: between };
  const below = slab.y + between;
  const height = Math.max(STORE_DOWN, 8 * least);
  const store = withStore ? { x: PADDING, y: below, width: inner, height } : null;
  const end = below + (store ? height + 8 : 0);
  const decode = layoutGrid(counts.decode, { x: PADDING, y: end, width: inner, height: most });
  return {
    direction: 'down',
    prefill: centred(prefill),
    slab,
    ways: stacked ? 'stacked' : 'beside',
    store,
    decode: centred(decode),
    height: end + heightOf(decode) + PADDING,
  };
}

export const heightOf = ({ rows, cell, gap }: GridLayout): number => Math.max(0, rows * (cell + gap) - gap);

/** Centres the cells in the box's width. */
function centred(layout: GridLayout): GridLayout {
  const used = layout.columns * (layout.cell + layout.gap) - layout.gap;
  const shift = Math.floor((layout.box.width - used) / 2);
  return { ...layout, box: { ...layout.box, x: layout.box.x + Math.max(0, shift) } };
}
