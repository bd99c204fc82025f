/** Which lane of the timeline a span belongs to, and how spans that overlap share it. No DOM. */

export const LANES = ['router', 'P gpu', 'P host', 'link D>P', 'link P>D', 'D host', 'D gpu'] as const;
export type Lane = (typeof LANES)[number];

export const LANE_LABELS: Readonly<Record<Lane, string>> = {
  router: 'router',
  'P gpu': 'P · GPU',
  'P host': 'P · host',
  'link D>P': 'D → P',
  'link P>D': 'P → D',
  'D host': 'D · host',
  'D gpu': 'D · GPU',
};

/** Engine ids are 'P' and 'D' or begin with the role's name; lanes are made of them ('P host', 'link D>P'). */
export function laneOf(lane: string): Lane | null {
  const known = LANES.find((name) => name === lane);
  if (known) return known;
  const words = lane.toLowerCase();
  if (words.includes('>')) return /(^|\s)p[^>]*>/.test(words) ? 'link P>D' : 'link D>P';
  if (words.startsWith('router')) return 'router';
  const engine = words.startsWith('d') ? 'D' : words.startsWith('p') || words.startsWith('m') ? 'P' : null;
  if (engine === null) return null;
  return `${engine} ${words.endsWith('gpu') ? 'gpu' : 'host'}`;
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
 * Puts each interval on the first row that is free when it starts, in order of their starts. An interval that lies
 * inside another comes below it, so a stage shows under the work that it is part of.
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
