/** Draws one side of the stall: a mark for each token of the first user, and below it the second user's wait. */

import type { StallRun } from '../../session/types.ts';
import { font } from '../fonts.ts';
import { ms } from '../format.ts';
import { betterInk } from '../ink.ts';
import type { Palette } from '../palette.ts';
import { line } from '../stage/draw-block.ts';
import { type Domain, spanOf, tickLabel, tickStep, ticks, toX } from '../timeline/time-scale.ts';
import { longestOf } from './stall.ts';

export interface StallModel {
  run: StallRun;
  /** The same for both sides. */
  domain: Domain;
  /** Nothing later than this is drawn. */
  atMs: number;
  pastedTokens: number;
}

export interface StallLayout {
  gutter: number;
  row: number;
  height: number;
}

export function layoutStall(width: number, least: number): StallLayout {
  const text = Math.max(11, least);
  const row = text + 9;
  return { gutter: Math.min(width * 0.3, text * 5.4), row, height: 2 * row + 6 + text + 6 };
}

export function drawStall(
  context: CanvasRenderingContext2D,
  width: number,
  layout: StallLayout,
  model: StallModel,
  palette: Palette,
): void {
  const { gutter, row, height } = layout;
  const plot = width - gutter - 2;
  const x = (atMs: number) => gutter + toX(model.domain, plot, atMs);
  context.font = font(palette, 11);
  context.textBaseline = 'middle';
  context.textAlign = 'left';
  context.fillStyle = palette.ink2;
  context.fillText('first user', 0, row / 2);
  context.fillText('second', 0, row + 6 + row / 2);
  drawAxis(context, layout, width, model, x, palette);
  drawPause(context, layout, model, x, palette);
  context.fillStyle = palette.d;
  for (const at of model.run.tokensMs) if (at <= model.atMs) context.fillRect(x(at) - 1, 2, 2.5, row - 4);
  drawPaste(context, layout, model, x, palette);
  if (model.atMs < model.domain.endMs) {
    context.strokeStyle = palette.ink;
    context.lineWidth = 1;
    line(context, x(model.atMs), 0, x(model.atMs), height - 2);
  }
}

type ToX = (atMs: number) => number;

/** The time axis below both rows; 0 is the paste. */
function drawAxis(
  context: CanvasRenderingContext2D,
  { row, gutter, height }: StallLayout,
  width: number,
  { domain }: StallModel,
  x: ToX,
  palette: Palette,
): void {
  const plot = width - gutter - 2;
  context.font = font(palette, 11);
  const step = tickStep(domain, plot);
  let free = gutter;
  for (const at of ticks(domain, plot, 0)) {
    context.strokeStyle = at === 0 ? palette.ink3 : palette.line;
    context.lineWidth = 1;
    line(context, Math.round(x(at)) + 0.5, 0, Math.round(x(at)) + 0.5, 2 * row + 10);
    const text = at === 0 ? 'pasted' : tickLabel(at, step, domain.endMs);
    const long = context.measureText(text).width;
    const left = x(at) - long / 2;
    if (left < free || left + long > width) continue;
    context.fillStyle = palette.ink3;
    context.fillText(text, left, height - 2.5 - Math.max(11, palette.least) / 2);
    free = left + long + 10;
  }
}

/** The longest pause, up to the clock; its length is written in it once it is over. */
function drawPause(
  context: CanvasRenderingContext2D,
  { row }: StallLayout,
  { run, atMs }: StallModel,
  x: ToX,
  palette: Palette,
): void {
  const pause = longestOf(run);
  if (!pause || atMs <= pause.startMs) return;
  const [from, to] = [x(pause.startMs) + 2, x(Math.min(pause.endMs, atMs)) - 2];
  if (to <= from) return;
  context.fillStyle = palette.badWash;
  context.fillRect(from, 2, to - from, row - 4);
  const text = ms(spanOf(pause));
  if (atMs < pause.endMs || context.measureText(text).width > to - from - 6) return;
  context.fillStyle = palette.bad;
  context.font = font(palette, 11, 600);
  context.textAlign = 'center';
  context.fillText(text, (from + to) / 2, row / 2);
  context.textAlign = 'left';
}

/** The prefill of the pasted text: from the paste to the second user's first token. */
function drawPaste(
  context: CanvasRenderingContext2D,
  { row }: StallLayout,
  { run, atMs, pastedTokens }: StallModel,
  x: ToX,
  palette: Palette,
): void {
  if (atMs <= 0) return;
  const y = row + 8;
  const [from, to] = [x(0), x(Math.min(run.pastedFirstMs, atMs))];
  const opacity = 0.8;
  context.globalAlpha = opacity;
  context.fillStyle = palette.p;
  context.fillRect(from, y, to - from, row - 4);
  context.globalAlpha = 1;
  const text = `prefill of ${pastedTokens} tokens`;
  context.font = font(palette, 11);
  if (context.measureText(text).width < to - from - 10) {
    context.fillStyle = betterInk([palette.ink, palette.onAccent], palette.p, opacity, palette.surface);
    context.fillText(text, from + 6, y + (row - 4) / 2 + 0.5);
  }
  if (atMs < run.pastedFirstMs) return;
  context.fillStyle = palette.d;
  context.fillRect(x(run.pastedFirstMs) - 1, y, 2.5, row - 4);
}
