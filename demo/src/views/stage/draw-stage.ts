/** Draws P's blocks, the slab, D's blocks, and the copies between them at one moment. */
import type { BlockView, Role, SlabView, TransferView } from '../../session/types.ts';
import { font } from '../fonts.ts';
import * as format from '../format.ts';
import { type Box, cellBox, type StageLayout, WAY_WIDTH } from '../geometry.ts';
import { movedMs } from '../measured.ts';
import type { Palette } from '../palette.ts';
import { DIRECTIONS, type Direction, holderOf, readerOf } from './direction.ts';
import { type BlockLook, drawBlock, drawBlockFocus, roundRect } from './draw-block.ts';
import { type Flight, pointOnWay, progressOf } from './flights.ts';

export interface Focus {
  role: Role;
  id: number;
}

/** Something else that is drawn on the stage: the store. */
export interface StageLayer {
  /** Advances the animation; returns true while something is in flight. `still`: without motion. */
  advance(elapsedMs: number, still: boolean): boolean;
  /** Ids of the drawn engine's blocks whose copies are still in flight. */
  awaited(role: Role): ReadonlySet<number>;
  draw(context: CanvasRenderingContext2D, stage: StageLayout, palette: Palette): void;
}

export interface StageModel {
  blocks: Readonly<Record<Role, readonly BlockView[]>>;
  alive: Readonly<Record<Role, boolean>>;
  flights: readonly Flight[];
  awaited: Readonly<Record<Role, ReadonlySet<number>>>;
  slabs: Readonly<Record<Direction, SlabView | null>>;
  /** Slots in use, as the meter shows them. */
  slabFill: Readonly<Record<Direction, number>>;
  /** Each direction's last transfer, running or ended, among those that brought what the grids show. */
  last: Readonly<Record<Direction, TransferView | null>>;
  /** Whether any two engines had such a transfer. */
  elsewhere: Readonly<Record<Direction, boolean>>;
  /** At least one turn was asked. */
  asked: boolean;
  /** These transfers are those of a turn that was served again into emptied engines. */
  again: boolean;
  look(role: Role, block: BlockView): BlockLook;
  /** What a free block held until a moment ago, and how much of it is still visible. */
  glow(role: Role, block: BlockView): { block: BlockView; fade: number } | null;
  focus: Focus | null;
  /** Drawn over the blocks and under the flights; null: none. */
  layer: Pick<StageLayer, 'draw'> | null;
  /** Whether the block has the words that are pointed at. */
  lit(block: BlockView): boolean;
}

const ROLES = ['prefill', 'decode'] as const;

export function drawStage(
  context: CanvasRenderingContext2D,
  layout: StageLayout,
  model: StageModel,
  palette: Palette,
): void {
  for (const role of ROLES) {
    context.save();
    if (!model.alive[role]) context.globalAlpha = 0.35;
    drawFree(context, layout, role, model, palette);
    for (const block of model.blocks[role]) {
      const awaited = model.awaited[role].has(block.id);
      const glow = awaited ? null : model.glow(role, block);
      if (glow) {
        const look = { ...model.look(role, glow.block), fade: glow.fade };
        drawBlock(context, cellBox(layout[role], block.id), glow.block, look, palette);
        continue;
      }
      if (block.state === 'free' && !awaited) continue;
      drawBlock(context, cellBox(layout[role], block.id), block, model.look(role, block), palette);
    }
    context.restore();
  }
  for (const direction of DIRECTIONS) drawChannel(context, layout, direction, model, palette);
  model.layer?.draw(context, layout, palette);
  drawLit(context, layout, model, palette);
  if (model.focus) drawFocus(context, layout, model, palette);
  for (const flight of model.flights) drawFlight(context, layout, flight, palette);
}

/** All outlines of free blocks in one stroke: they are most of a pool. */
function drawFree(
  context: CanvasRenderingContext2D,
  layout: StageLayout,
  role: Role,
  { blocks, awaited }: StageModel,
  palette: Palette,
): void {
  context.beginPath();
  for (const { id, state } of blocks[role]) {
    if (state !== 'free' || awaited[role].has(id)) continue;
    const { x, y, width } = cellBox(layout[role], id);
    context.rect(x + 0.5, y + 0.5, width - 1, width - 1);
  }
  context.lineWidth = 1;
  context.strokeStyle = palette.line;
  context.stroke();
}

const colourOf = (direction: Direction, palette: Palette): string =>
  direction === 'd_to_p' ? palette.pull : palette.p;

/** A direction's half of the slab. */
function channelBox({ slab, ways }: StageLayout, direction: Direction): Box {
  const first = direction === 'd_to_p';
  if (ways === 'stacked') {
    const height = slab.height / 2;
    return { x: slab.x + 10, y: slab.y + (first ? 0 : height), width: slab.width - 20, height };
  }
  const width = slab.width / 2;
  return {
    x: slab.x + (first ? 0 : width) + 8,
    y: slab.y + 6,
    width: width - 16,
    height: slab.height - 12,
  };
}

function slotsBox(channel: Box): Box {
  const width = Math.min(channel.width - 12, 110);
  return {
    x: channel.x + (channel.width - width) / 2,
    y: channel.y + channel.height / 2 - 20,
    width,
    height: 12,
  };
}

function drawChannel(
  context: CanvasRenderingContext2D,
  layout: StageLayout,
  direction: Direction,
  model: StageModel,
  palette: Palette,
): void {
  const channel = channelBox(layout, direction);
  const colour = colourOf(direction, palette);
  const slots = slotsBox(channel);
  const slab = model.slabs[direction];
  const count = Math.min(slab?.slots ?? 4, 16);
  const pitch = slots.width / count;
  for (let i = 0; i < count; i++) {
    const cell = { x: slots.x + i * pitch + 1, y: slots.y, width: pitch - 2, height: slots.height };
    roundRect(context, cell, 3);
    context.fillStyle = palette.sunken;
    context.fill();
    context.strokeStyle = palette.lineStrong;
    context.lineWidth = 1;
    context.stroke();
    const filled = Math.min(1, Math.max(0, model.slabFill[direction] * (count / (slab?.slots ?? count)) - i));
    if (filled > 0) {
      roundRect(context, { ...cell, width: cell.width * filled }, 3);
      context.fillStyle = colour;
      context.fill();
    }
  }
  drawArrow(context, layout, channel, slots, direction, colour, palette.least);
  drawRate(context, layout, channel, slots, direction, model, palette);
}

/** A thin arrow in the direction of the bytes: to P for a pull, to D for the handover. */
function drawArrow(
  context: CanvasRenderingContext2D,
  { direction: lie, ways }: StageLayout,
  channel: Box,
  slots: Box,
  direction: Direction,
  colour: string,
  least: number,
): void {
  const towardsP = direction === 'd_to_p';
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.beginPath();
  if (lie === 'across') {
    const y = slots.y + slots.height + 10;
    const [from, to] = towardsP
      ? [channel.x + channel.width, channel.x]
      : [channel.x, channel.x + channel.width];
    const back = towardsP ? 6 : -6;
    context.moveTo(from, y);
    context.lineTo(to, y);
    context.moveTo(to + back, y - 4);
    context.lineTo(to, y);
    context.lineTo(to + back, y + 4);
  } else {
    // Left of the slots, and of their labels if the text is large.
    const left = Math.min(slots.x - 12, channel.x + (channel.width - WAY_WIDTH * least) / 2);
    const x = ways === 'stacked' ? channel.x : Math.max(channel.x, left);
    const [from, to] = towardsP
      ? [channel.y + channel.height, channel.y]
      : [channel.y, channel.y + channel.height];
    const back = towardsP ? 6 : -6;
    context.moveTo(x, from);
    context.lineTo(x, to);
    context.moveTo(x - 4, to + back);
    context.lineTo(x, to);
    context.lineTo(x + 4, to + back);
  }
  context.stroke();
}

/** Above the slots: the direction. Below: blocks, time and rate, or that nothing was copied yet. */
function drawRate(
  context: CanvasRenderingContext2D,
  { direction: lie }: StageLayout,
  channel: Box,
  slots: Box,
  direction: Direction,
  model: StageModel,
  palette: Palette,
): void {
  const x = channel.x + channel.width / 2;
  context.textAlign = 'center';
  context.textBaseline = 'alphabetic';
  context.fillStyle = direction === 'd_to_p' ? palette.pullInk : palette.pInk;
  context.font = font(palette, 12, 600);
  context.fillText(direction === 'd_to_p' ? 'back: D → P' : 'handover: P → D', x, slots.y - 9);
  context.fillStyle = palette.ink2;
  context.font = font(palette, 12);
  const lineHeight = Math.max(15, palette.least + 3);
  // Across, the arrow is between the slots and the text.
  const under = slots.y + slots.height + (lie === 'across' ? 14 : 4);
  const lines = rateLines(model, direction);
  lines.forEach((text, i) => {
    context.fillText(text, x, under + (i + 1) * lineHeight);
  });
}

function rateLines(
  { last, elsewhere, asked, again }: Pick<StageModel, 'last' | 'elsewhere' | 'asked' | 'again'>,
  direction: Direction,
): readonly string[] {
  const transfer = last[direction];
  if (!transfer && elsewhere[direction]) return ['between others,', 'not these two'];
  // The conversation shows what the turn itself copied, so the sentence must not be about the turn.
  if (!transfer && again) return ['none when its KV', 'was computed again'];
  if (!transfer) return [asked ? 'none for this turn' : 'nothing yet'];
  const { pairs, chunks, bytes, bytesDone, endMs, outcome, throttled } = transfer;
  const blocks = format.plural(pairs.length, 'block');
  if (endMs === null)
    return [chunks ? `${blocks} so far` : blocks, `${format.bytes(bytesDone)} of ${format.bytes(bytes)}`];
  if (outcome !== 'done') return [blocks, outcome ?? 'ended'];
  const took = movedMs(transfer);
  const how = throttled ? ', modelled' : chunks ? ', streamed' : '';
  return [`${blocks} in ${format.ms(took)}`, `${format.rate(bytes, took)}${how}`];
}

function drawFlight(
  context: CanvasRenderingContext2D,
  layout: StageLayout,
  flight: Flight,
  palette: Palette,
): void {
  const from = layout[holderOf(flight.direction)];
  const to = layout[readerOf(flight.direction)];
  const over = slotsBox(channelBox(layout, flight.direction));
  context.fillStyle = flight.failed ? palette.bad : colourOf(flight.direction, palette);
  context.strokeStyle = palette.surface;
  context.lineWidth = 1.5;
  const size = Math.max(6, Math.min(from.cell, to.cell, 22));
  flight.pairs.forEach(([source, target], i) => {
    const progress = progressOf(flight, i);
    if (progress <= 0 || progress >= 1) return;
    const { x, y } = pointOnWay(cellBox(from, source), over, cellBox(to, target), progress);
    const small = size * (0.62 + 0.38 * Math.abs(progress * 2 - 1));
    roundRect(context, { x: x - small / 2, y: y - small / 2, width: small, height: small }, 3);
    context.fill();
    context.stroke();
  });
}

/** Frames each block of P and D that has the words pointed at. */
function drawLit(
  context: CanvasRenderingContext2D,
  layout: StageLayout,
  { blocks, lit }: StageModel,
  palette: Palette,
): void {
  context.strokeStyle = palette.ink;
  context.lineWidth = 3;
  for (const role of ROLES) {
    for (const block of blocks[role]) {
      if (!lit(block)) continue;
      const { x, y, width, height } = cellBox(layout[role], block.id);
      roundRect(context, { x: x - 1, y: y - 1, width: width + 2, height: height + 2 }, 4);
      context.stroke();
    }
  }
}

function drawFocus(
  context: CanvasRenderingContext2D,
  layout: StageLayout,
  { focus, blocks }: StageModel,
  palette: Palette,
): void {
  if (!focus || focus.id >= blocks[focus.role].length) return;
  drawBlockFocus(context, cellBox(layout[focus.role], focus.id), palette);
}
