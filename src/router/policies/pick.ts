/**
 * What policies share: picks by least score or by weight (ties are broken at random, as in routers that shuffle first),
 * the scores that a decision reports, and the use of a pool.
 */
import type { EngineView, RoutingScore } from '../plan.ts';

/** undefined if the list is empty or every score is NaN. */
export function leastOf<T>(
  items: readonly T[],
  score: (item: T) => number,
  draw: () => number,
): T | undefined {
  let best: T | undefined;
  let least = Number.POSITIVE_INFINITY;
  let equals = 0;
  for (const item of items) {
    const value = score(item);
    if (value < least || (best === undefined && value === least)) {
      best = item;
      least = value;
      equals = 1;
    } else if (value === least && draw() * ++equals < 1) {
      best = item;
    }
  }
  return best;
}

/** Draws one by weight. If no weight is above 0, all are equally likely. */
export function weightedRandom<T>(items: readonly T[], weight: (item: T) => number, draw: () => number): T {
  const weights = items.map((item) => Math.max(0, weight(item)));
  const total = weights.reduce((sum, w) => sum + w, 0);
  if (!(total > 0)) return items[Math.floor(draw() * items.length)]!;
  let left = draw() * total;
  // If rounding leaves a remainder, takes the last one with a positive weight.
  let last = items[0] as T;
  for (const [i, item] of items.entries()) {
    if (weights[i] === 0) continue;
    last = item;
    left -= weights[i]!;
    if (left < 0) break;
  }
  return last;
}

export interface Scored {
  engine: EngineView;
  score: number;
}

export const scoresOf = (
  side: RoutingScore['side'],
  scored: readonly Scored[],
  best: RoutingScore['best'] = 'least',
): RoutingScore[] => scored.map(({ engine, score }) => ({ engineId: engine.engineId, side, score, best }));

/** The share of blocks in use by the engine's last report; 0 without one. */
export const kvUsage = ({ signals }: EngineView): number =>
  signals && signals.numBlocks > 0 ? 1 - signals.freeBlocks / signals.numBlocks : 0;

export const maxOf = <T>(items: readonly T[], value: (item: T) => number): number =>
  items.reduce((most, item) => Math.max(most, value(item)), Number.NEGATIVE_INFINITY);

export const minOf = <T>(items: readonly T[], value: (item: T) => number): number =>
  items.reduce((least, item) => Math.min(least, value(item)), Number.POSITIVE_INFINITY);
