/** Spans as bars on lanes: placed once per change, drawn and hit-tested many times. No DOM. */
import type { Span, TurnView } from '../../session/types.ts';
import type { DrawnIds } from '../stage/direction.ts';
import { type Lane, laneNames, laneOf, packRows, type Tone, toneOf } from './lanes.ts';
import { type Domain, toX } from './time-scale.ts';

export interface Bar {
  span: Span;
  lane: Lane;
  row: number;
  tone: Tone;
}

export interface LaneBars {
  lane: Lane;
  rows: number;
  /** By start. */
  bars: readonly Bar[];
}

const MOST_ROWS = 4;
/** Room below the lanes for the labels of first tokens. */
const FLAG = 14;

export function placeSpans(spans: readonly Span[], drawn: DrawnIds): readonly LaneBars[] {
  const byLane = new Map<Lane, Span[]>(laneNames.map((lane) => [lane, []]));
  for (const span of spans) {
    const lane = laneOf(span, drawn);
    if (lane !== null) byLane.get(lane)!.push(span);
  }
  return [...byLane].map(([lane, own]) => {
    const { packed, rows } = packRows(own, MOST_ROWS);
    const bars = packed.map(({ item: span, row }) => ({ span, lane, row, tone: toneOf(span, lane, drawn) }));
    // Without a store there is no lane for it.
    return { lane, rows: lane === 'store' && own.length === 0 ? 0 : rows, bars };
  });
}

/** The time that all spans and turns cover. */
export function wholeOf(spans: readonly Span[], turns: readonly TurnView[]): Domain {
  let [startMs, endMs] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const span of spans) {
    startMs = Math.min(startMs, span.startMs);
    endMs = Math.max(endMs, span.endMs);
  }
  for (const turn of turns) {
    startMs = Math.min(startMs, turn.startMs);
    endMs = Math.max(endMs, turn.endMs ?? turn.startMs);
  }
  if (!(endMs > startMs)) return { startMs: 0, endMs: 1000 };
  const margin = (endMs - startMs) * 0.02;
  return { startMs: startMs - margin, endMs: endMs + margin };
}

export type Fit = 'first token' | 'whole turn' | 'last turns';
export const FITS: readonly Fit[] = ['first token', 'whole turn', 'last turns'];
const LAST_TURNS = 4;

/** The domain of a fit; null before the first turn. `nowMs` is the end of a running turn. */
export function fitTo(fit: Fit, turns: readonly TurnView[], nowMs: number): Domain | null {
  const last = turns.at(-1);
  if (!last) return null;
  const first = fit === 'last turns' ? turns.at(-Math.min(LAST_TURNS, turns.length))! : last;
  const ended = last.endMs ?? nowMs;
  const endMs = fit === 'first token' ? (last.firstTokenMs ?? ended) : ended;
  const startMs = first.startMs;
  const span = Math.max(endMs - startMs, 1);
  return { startMs: startMs - span * 0.03, endMs: startMs + span * 1.06 };
}

/** Rows and lanes to pixels. */
export interface TimelineLayout {
  gutter: number;
  axis: number;
  row: number;
  lanes: readonly { lane: Lane; y: number; height: number }[];
  height: number;
}

/** `least`: the smallest font size, pixels. */
export function layoutTimeline(width: number, rows: readonly number[], least = 0): TimelineLayout {
  const gutter = Math.max(width < 520 ? 62 : 76, 5.2 * least);
  const [axis, row, gap] = [Math.max(22, least + 12), Math.max(13, least + 4), 7];
  let y = axis + 4;
  const lanes = laneNames.flatMap((lane, i) => {
    const needed = rows[i] ?? (lane === 'store' ? 0 : 1);
    if (needed === 0) return [];
    const height = needed * row + 2;
    const placed = { lane, y, height };
    y += height + gap;
    return [placed];
  });
  return { gutter, axis, row, lanes, height: y + Math.max(FLAG, least + 4) };
}

/** The bar at a point, with 3 pixels of tolerance. The shortest one wins: it is drawn on top of the others. */
export function barAt(
  lanes: readonly LaneBars[],
  layout: TimelineLayout,
  domain: Domain,
  width: number,
  point: { x: number; y: number },
): Bar | null {
  const index = layout.lanes.findIndex(({ y, height }) => point.y >= y && point.y < y + height + 3);
  const place = layout.lanes[index];
  const own = lanes.find(({ lane }) => lane === place?.lane);
  if (!place || !own) return null;
  const row = Math.floor((point.y - place.y) / layout.row);
  const plot = width - layout.gutter;
  const x = point.x - layout.gutter;
  let best: Bar | null = null;
  for (const bar of own.bars) {
    if (bar.row !== row) continue;
    const [from, to] = [toX(domain, plot, bar.span.startMs), toX(domain, plot, bar.span.endMs)];
    if (x < from - 3 || x > to + 3) continue;
    if (!best || lengthOf(bar) < lengthOf(best)) best = bar;
  }
  return best;
}

const lengthOf = ({ span }: Bar): number => span.endMs - span.startMs;

/** The bar that an arrow key moves to: along the lane, or to the bar of the next lane that is nearest in time. */
export function barFrom(
  lanes: readonly LaneBars[],
  domain: Domain,
  from: Bar | null,
  key: 'ArrowLeft' | 'ArrowRight' | 'ArrowUp' | 'ArrowDown',
): Bar | null {
  const seen = lanes
    .map(({ bars }) =>
      bars.filter(({ span }) => span.endMs >= domain.startMs && span.startMs <= domain.endMs),
    )
    .filter((bars) => bars.length > 0);
  if (seen.length === 0) return null;
  if (!from) return seen[0]![0]!;
  const at = seen.findIndex((bars) => bars[0]!.lane === from.lane);
  if (at === -1) return seen[0]![0]!;
  if (key === 'ArrowLeft' || key === 'ArrowRight') {
    const place = seen[at]!.indexOf(from);
    return seen[at]![place + (key === 'ArrowLeft' ? -1 : 1)] ?? from;
  }
  const other = seen[at + (key === 'ArrowUp' ? -1 : 1)];
  if (!other) return from;
  const distance = ({ span }: Bar) => Math.abs(span.startMs - from.span.startMs);
  return other.reduce((best, bar) => (distance(bar) < distance(best) ? bar : best));
}
