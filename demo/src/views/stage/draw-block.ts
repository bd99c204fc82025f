/**
 * Draws one block. States can be distinguished without colour. Fill: the engine that computed the KV (P, D), or that it
 * was pulled from D; the newer the turn, the stronger. Figure: the turn. Stripe below: the conversation.
 */
import type { BlockView, Role } from '../../session/types.ts';
import { font } from '../fonts.ts';
import type { Box } from '../geometry.ts';
import { betterInk } from '../ink.ts';
import type { Palette } from '../palette.ts';

export interface BlockLook {
  /** The role of the engine whose grid it is in. */
  role: Role;
  /** The newest turn in the grids. */
  newestTurn: number;
  /** Index of the block's conversation; 0 is the first. */
  conversation: number;
  /** Its copy is still in flight. */
  awaited: boolean;
  /** 1 right after an eviction, falling to 0. */
  evictedGlow: number;
  /** Opacity: 1, or less for a block that was freed recently. */
  fade: number;
  /** Its content was copied from the store. */
  stored: boolean;
  /** Its KV was computed from other words than the prompt's. */
  wrong: boolean;
}

/** The colour of the block's origin: computed here, or copied from the other engine. */
function accentOf(block: Pick<BlockView, 'state' | 'origin'>, role: Role, palette: Palette): string {
  const pulled = block.origin === 'pulled' || block.state === 'pulled' || block.state === 'arriving';
  if (role === 'prefill') return pulled ? palette.pull : palette.p;
  return pulled ? palette.p : palette.d;
}

/** The newest turn is strongest; four turns back and older look the same. */
const strength = (turn: number | null, newestTurn: number): number =>
  1 - 0.16 * Math.min(4, Math.max(0, newestTurn - (turn ?? newestTurn)));

/** A key of everything that a block's look depends on, except its place and the palette. */
export function markKey({ state, origin, turn, heldFor }: BlockView, look: BlockLook): string {
  const { role, conversation, awaited, evictedGlow, fade, stored, wrong, newestTurn } = look;
  const held = heldFor !== null;
  const stripe = conversation > 0 ? 1 + (conversation % 4) : 0;
  const shown = [state, origin, turn, held, strength(turn, newestTurn), role, stripe];
  return [...shown, awaited, evictedGlow, fade, stored, wrong].join();
}

export function drawBlock(
  context: CanvasRenderingContext2D,
  box: Box,
  block: BlockView,
  look: BlockLook,
  palette: Palette,
): void {
  const { x, y, width: size } = box;
  if (block.state === 'null') {
    context.fillStyle = palette.lineStrong;
    context.fillRect(x + size / 2 - 1, y + size / 2 - 1, 2, 2);
    return;
  }
  const empty = block.state === 'free' || block.state === 'evicted';
  if (empty || look.awaited || block.state === 'arriving') {
    drawHollow(context, box, block, look, palette);
    return;
  }
  const accent = look.wrong ? palette.bad : look.stored ? palette.store : accentOf(block, look.role, palette);
  const cached = block.state === 'cached';
  const weight = strength(block.turn, look.newestTurn);
  context.globalAlpha = look.fade * (cached ? 0.2 : weight);
  context.fillStyle = accent;
  roundRect(context, box);
  context.fill();
  context.globalAlpha = look.fade;
  if (cached) {
    context.strokeStyle = accent;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
  }
  if (size >= 7) drawMark(context, box, block, cached ? palette.ink2 : palette.onAccent, palette);
  if (size >= Math.max(17, 1.2 * palette.least) && block.turn !== null && look.fade > 0.3) {
    const opacity = look.fade * (cached ? 0.2 : weight);
    const ink = betterInk([palette.ink, palette.onAccent], accent, opacity, palette.surface);
    // The figure does not fade with the block: it must stay readable.
    context.globalAlpha = 1;
    drawTurn(context, box, block.turn, ink, palette);
  }
  if (look.conversation > 0 && size >= 6) {
    context.fillStyle = talkColour(look.conversation, palette);
    context.fillRect(x, y + size - 3, size, 3);
  }
  context.globalAlpha = 1;
}

const talkColour = (index: number, palette: Palette): string =>
  [palette.talk1, palette.talk2, palette.talk3, palette.talk4][index % 4]!;

/** A block without content: an outline; dashed while a copy is on its way; crossed after an eviction. */
function drawHollow(
  context: CanvasRenderingContext2D,
  { x, y, width: size }: Box,
  block: BlockView,
  look: BlockLook,
  palette: Palette,
): void {
  const coming = look.awaited || block.state === 'arriving';
  context.lineWidth = 1;
  context.strokeStyle = coming ? (look.role === 'prefill' ? palette.pull : palette.p) : palette.line;
  if (coming && size >= 6) context.setLineDash([3, 2]);
  context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
  context.setLineDash([]);
  if (block.state === 'evicted' && !coming && size >= 6) {
    context.strokeStyle = look.evictedGlow > 0 ? palette.bad : palette.lineStrong;
    context.globalAlpha = 0.55 + 0.45 * look.evictedGlow;
    const inset = size * 0.28;
    line(context, x + inset, y + inset, x + size - inset, y + size - inset);
    line(context, x + size - inset, y + inset, x + inset, y + size - inset);
    context.globalAlpha = 1;
  }
}

/** hit: a ring. pulled: a cut corner. held: brackets. computed: nothing. */
function drawMark(
  context: CanvasRenderingContext2D,
  { x, y, width: size }: Box,
  block: BlockView,
  colour: string,
  palette: Palette,
): void {
  if (block.origin === 'pulled' || block.state === 'pulled') {
    const notch = Math.max(3, size * 0.3);
    context.fillStyle = palette.surface;
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + notch, y);
    context.lineTo(x, y + notch);
    context.fill();
  }
  if (block.state === 'hit') {
    context.strokeStyle = colour;
    context.lineWidth = 1.5;
    context.strokeRect(x + 2.5, y + 2.5, size - 5, size - 5);
  }
  if (block.heldFor !== null) {
    context.strokeStyle = palette.ink;
    context.lineWidth = size >= 14 ? 2 : 1.5;
    const arm = size * 0.3;
    for (const [cx, cy, dx, dy] of [
      [x + size, y, -1, 1],
      [x, y + size, 1, -1],
      [x + size, y + size, -1, -1],
    ] as const) {
      context.beginPath();
      context.moveTo(cx + dx * arm, cy);
      context.lineTo(cx, cy);
      context.lineTo(cx, cy + dy * arm);
      context.stroke();
    }
  }
}

function drawTurn(
  context: CanvasRenderingContext2D,
  { x, y, width: size }: Box,
  turn: number,
  colour: string,
  palette: Palette,
): void {
  context.fillStyle = colour;
  context.font = font(palette, Math.round(size * 0.42), 600);
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  context.fillText(String(turn), x + size / 2, y + size / 2 + 0.5);
}

/** A frame around the block that is pointed at or selected with the arrow keys. */
export function drawBlockFocus(
  context: CanvasRenderingContext2D,
  { x, y, width, height }: Box,
  palette: Palette,
): void {
  context.strokeStyle = palette.focus;
  context.lineWidth = 2;
  roundRect(context, { x: x - 2.5, y: y - 2.5, width: width + 5, height: height + 5 }, 4);
  context.stroke();
}

export function roundRect(context: CanvasRenderingContext2D, { x, y, width, height }: Box, radius = 2): void {
  context.beginPath();
  if (width < 8) context.rect(x, y, width, height);
  else context.roundRect(x, y, width, height, radius);
}

export function line(
  context: CanvasRenderingContext2D,
  x0: number,
  y0: number,
  x1: number,
  y1: number,
): void {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}
