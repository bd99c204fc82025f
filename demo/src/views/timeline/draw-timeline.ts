/** Draws the timeline: lanes, bars, axis. Modelled time is hatched; GPU timestamps have a dark top edge. */
import type { TurnView } from '../../session/types.ts';
import { font } from '../fonts.ts';
import type { Box } from '../geometry.ts';
import { betterInk } from '../ink.ts';
import type { Palette } from '../palette.ts';
import { line } from '../stage/draw-block.ts';
import { LANES, type Tone } from './lanes.ts';
import { type Domain, tickLabel, tickStep, ticks, toX } from './time-scale.ts';
import type { Bar, LaneBars, TimelineLayout } from './timeline-model.ts';

export interface TimelineModel {
  lanes: readonly LaneBars[];
  turns: readonly TurnView[];
  domain: Domain;
  focus: Bar | null;
  /** Nothing later than this is drawn. */
  nowMs: number;
}

const toneColour = (tone: Tone, palette: Palette): string => ({ ...palette, router: palette.ink3 })[tone];

const inkOf = (tone: Tone, { pInk: p, dInk: d, pullInk: pull, storeInk: store, ink2 }: Palette): string =>
  ({ p, d, pull, store, over: ink2, router: ink2 })[tone];

export function drawTimeline(
  context: CanvasRenderingContext2D,
  width: number,
  layout: TimelineLayout,
  model: TimelineModel,
  palette: Palette,
): void {
  const plot = width - layout.gutter;
  drawAxis(context, width, layout, model, palette);
  drawLabels(context, layout, palette);
  context.save();
  context.beginPath();
  context.rect(layout.gutter, 0, plot, layout.height);
  context.clip();
  for (const { lane, bars } of model.lanes) {
    const place = layout.lanes.find((candidate) => candidate.lane === lane);
    if (place) drawBars(context, bars, place.y, layout, plot, model, palette);
  }
  if (model.focus) drawFocus(context, model.focus, layout, plot, model.domain, palette);
  context.restore();
}

function drawAxis(
  context: CanvasRenderingContext2D,
  width: number,
  layout: TimelineLayout,
  { domain, turns }: TimelineModel,
  palette: Palette,
): void {
  const plot = width - layout.gutter;
  const shown = turns.filter(
    ({ startMs, endMs }) => startMs < domain.endMs && (endMs ?? Infinity) > domain.startMs,
  );
  const inView = shown.find(({ startMs }) => startMs >= domain.startMs);
  const origin = (inView ?? shown.at(-1))?.startMs ?? domain.startMs;
  const gap = Math.max(72, 5 * palette.least);
  const step = tickStep(domain, plot, gap);
  context.font = font(palette, 11);
  context.textBaseline = 'middle';
  context.textAlign = 'left';
  context.lineWidth = 1;
  for (const at of ticks(domain, plot, origin, gap)) {
    const x = Math.round(layout.gutter + toX(domain, plot, at)) + 0.5;
    context.strokeStyle = palette.line;
    line(context, x, layout.axis - 6, x, layout.height);
    context.fillStyle = palette.ink3;
    const label = tickLabel(at - origin, step, domain.endMs - origin);
    if (x + 4 + context.measureText(label).width <= width) context.fillText(label, x + 4, layout.axis - 12);
  }
  context.strokeStyle = palette.ink3;
  context.setLineDash([2, 3]);
  /** The right end of the last label. */
  let free = layout.gutter;
  for (const turn of shown.toSorted((a, b) => (a.firstTokenMs ?? 0) - (b.firstTokenMs ?? 0))) {
    for (const at of [turn.startMs, turn.firstTokenMs]) {
      if (at === null) continue;
      const x = Math.round(layout.gutter + toX(domain, plot, at)) + 0.5;
      if (x < layout.gutter) continue;
      line(context, x, layout.axis, x, layout.height);
    }
    if (turn.firstTokenMs !== null) free = drawFlag(context, turn, free, layout, plot, domain, palette);
  }
  context.setLineDash([]);
}

/** Labels a turn's first token, unless another label is in the way. Returns the right end of the last label. */
function drawFlag(
  context: CanvasRenderingContext2D,
  turn: TurnView,
  free: number,
  layout: TimelineLayout,
  plot: number,
  domain: Domain,
  palette: Palette,
): number {
  const x = layout.gutter + toX(domain, plot, turn.firstTokenMs!) - 5;
  const text = `turn ${turn.turn}: first token`;
  if (x > layout.gutter + plot || x - context.measureText(text).width < free) return free;
  context.fillStyle = palette.ink2;
  context.textAlign = 'right';
  context.fillText(text, x, layout.height - 8);
  context.textAlign = 'left';
  return x + 10;
}

function drawLabels(context: CanvasRenderingContext2D, layout: TimelineLayout, palette: Palette): void {
  context.font = font(palette, 11.5, 600);
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  for (const { lane, y, height } of layout.lanes) {
    const { label, tone } = LANES[lane];
    context.fillStyle = inkOf(tone, palette);
    context.fillText(label, 0, y + height / 2);
  }
}

function drawBars(
  context: CanvasRenderingContext2D,
  bars: readonly Bar[],
  laneY: number,
  layout: TimelineLayout,
  plot: number,
  { domain, nowMs }: TimelineModel,
  palette: Palette,
): void {
  const drawnTo = new Map<number, number>();
  for (const bar of bars) {
    const { span, row, tone } = bar;
    if (span.endMs < domain.startMs || span.startMs > Math.min(domain.endMs, nowMs)) continue;
    const x = layout.gutter + Math.max(-4, toX(domain, plot, span.startMs));
    const end = layout.gutter + Math.min(plot + 4, toX(domain, plot, Math.min(span.endMs, nowMs)));
    // Skips bars that would share a pixel with the last one, so that thousands of tokens stay cheap.
    if (end <= (drawnTo.get(row) ?? Number.NEGATIVE_INFINITY) + 0.5) continue;
    drawnTo.set(row, end);
    const y = laneY + row * layout.row;
    const width = Math.max(1.2, end - x - (end - x > 4 ? 1 : 0));
    const height = layout.row - 2;
    const colour = toneColour(tone, palette);
    context.fillStyle = colour;
    const opacity = span.clock === 'modelled' ? 0.25 : span.clock === 'gpu' ? 1 : 0.72;
    context.globalAlpha = opacity;
    context.fillRect(x, y, width, height);
    context.globalAlpha = 1;
    if (span.clock === 'modelled') hatch(context, x, y, width, height, colour);
    if (span.clock === 'gpu' && width > 2) {
      context.fillStyle = palette.ink;
      context.fillRect(x, y, width, 1.5);
    }
    if (width <= 46) continue;
    const ink = betterInk([palette.ink, palette.onAccent], colour, opacity, palette.surface);
    label(context, span.name, { x, y, width, height }, ink, palette);
  }
}

/** Writes a bar's name into it, if all of it fits. */
function label(
  context: CanvasRenderingContext2D,
  text: string,
  { x, y, width, height }: Box,
  ink: string,
  palette: Palette,
): void {
  context.font = font(palette, 10);
  if (4 + context.measureText(text).width > width - 3) return;
  context.fillStyle = ink;
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  context.fillText(text, x + 4, y + height / 2 + 1);
}

function hatch(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  width: number,
  height: number,
  colour: string,
): void {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.strokeStyle = colour;
  context.lineWidth = 1;
  const first = x - height;
  for (let at = first; at < x + width && at - first < 4000; at += 4) {
    line(context, at, y + height, at + height, y);
  }
  context.restore();
}

function drawFocus(
  context: CanvasRenderingContext2D,
  { span, lane, row }: Bar,
  layout: TimelineLayout,
  plot: number,
  domain: Domain,
  palette: Palette,
): void {
  const place = layout.lanes.find((candidate) => candidate.lane === lane);
  if (!place) return;
  const x = layout.gutter + toX(domain, plot, span.startMs);
  const end = layout.gutter + toX(domain, plot, span.endMs);
  context.strokeStyle = palette.focus;
  context.lineWidth = 2;
  context.strokeRect(x - 1.5, place.y + row * layout.row - 1.5, Math.max(2, end - x) + 3, layout.row + 1);
}
