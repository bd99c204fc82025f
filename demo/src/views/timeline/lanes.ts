/** The timeline's lanes: which one a span belongs to, and how overlapping spans share it. No DOM. */
import { isOfStore } from '../../session/transfers.ts';
import type { Span } from '../../session/types.ts';
import type { DrawnIds } from '../stage/direction.ts';

/** Which engine did the work, or which way the bytes went. */
export type Tone = 'p' | 'd' | 'pull' | 'over' | 'store' | 'router';

/** From top to bottom. */
export const LANES = {
  router: { label: 'router', tone: 'router' },
  'P gpu': { label: 'P · GPU', tone: 'p' },
  'P host': { label: 'P · host', tone: 'p' },
  store: { label: 'store', tone: 'store' },
  'link D>P': { label: 'D → P', tone: 'pull' },
  'link P>D': { label: 'P → D', tone: 'over' },
  'D host': { label: 'D · host', tone: 'd' },
  'D gpu': { label: 'D · GPU', tone: 'd' },
} as const satisfies Record<string, { label: string; tone: Tone }>;

export type Lane = keyof typeof LANES;
export const laneNames = Object.keys(LANES) as readonly Lane[];

/** null: the span belongs to an engine that is not drawn. */
export function laneOf({ lane, engineId, way }: Span, { prefill, decode }: DrawnIds): Lane | null {
  if (lane === 'router') return 'router';
  if (lane === 'link') {
    if (way && isOfStore(way))
      return [way.from, way.to].some((id) => id === prefill || id === decode) ? 'store' : null;
    if (way?.from === decode && way?.to === prefill) return 'link D>P';
    return way?.from === prefill && way?.to === decode ? 'link P>D' : null;
  }
  if (engineId === prefill) return `P ${lane}`;
  return engineId === decode ? `D ${lane}` : null;
}

/** The lane's label. Engines that are not drawn are named with their number. */
export function whereOf(span: Span, drawn: DrawnIds): string {
  const lane = laneOf(span, drawn);
  if (lane !== null) return LANES[lane].label;
  const named = (engineId: string) =>
    engineId.replace(/^(prefill|decode)-/, (_, role: string) => (role === 'prefill' ? 'P' : 'D'));
  const { engineId, way } = span;
  if (way && span.lane === 'link') return `${named(way.from)} → ${named(way.to)}`;
  return `${named(engineId ?? 'router')} · ${span.lane === 'gpu' ? 'GPU' : span.lane}`;
}

/** A transfer's stages have the colour of its direction, on every lane. */
export function toneOf({ way }: Span, lane: Lane, { prefill }: DrawnIds): Tone {
  const { tone } = LANES[lane];
  if (way && isOfStore(way)) return 'store';
  if (!way || (tone !== 'p' && tone !== 'd')) return tone;
  return way.to === prefill ? 'pull' : 'over';
}

export interface Interval {
  startMs: number;
  endMs: number;
}

export interface Packed<T> {
  item: T;
  row: number;
}

/**
 * Puts each interval, in order of start, on the first row that is free when it starts. An interval inside another one
 * comes below it, so a stage is drawn under the work that it is part of.
 */
export function packRows<T extends Interval>(
  items: readonly T[],
  mostRows = 6,
): { packed: Packed<T>[]; rows: number } {
  const sorted = [...items].sort((a, b) => a.startMs - b.startMs || b.endMs - a.endMs);
  const freeFrom: number[] = [];
  const packed = sorted.map((item) => {
    let row = freeFrom.findIndex((free) => free <= item.startMs);
    if (row === -1) row = freeFrom.length < mostRows ? freeFrom.length : mostRows - 1;
    freeFrom[row] = Math.max(freeFrom[row] ?? 0, item.endMs);
    return { item, row };
  });
  return { packed, rows: Math.max(1, freeFrom.length) };
}
