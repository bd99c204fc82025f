/** Picks by least score or by weight. Ties are broken at random, as in routers that shuffle first. */

/** undefined if the list is empty or every score is NaN. */
export function leastOf<T>(of: readonly T[], score: (each: T) => number, draw: () => number): T | undefined {
  let best: T | undefined;
  let least = Number.POSITIVE_INFINITY;
  let equals = 0;
  for (const each of of) {
    const is = score(each);
    if (is < least || (best === undefined && is === least)) {
      best = each;
      least = is;
      equals = 1;
    } else if (is === least && draw() * ++equals < 1) {
      best = each;
    }
  }
  return best;
}

/** Draws one by weight. If no weight is above 0, all are equally likely. */
export function weightedRandom<T>(of: readonly T[], weight: (each: T) => number, draw: () => number): T {
  const weights = of.map((each) => Math.max(0, weight(each)));
  const total = weights.reduce((sum, w) => sum + w, 0);
  if (!(total > 0)) return of[Math.floor(draw() * of.length)]!;
  let left = draw() * total;
  // If rounding leaves a remainder, takes the last one with a positive weight.
  let last = of[0] as T;
  for (const [i, each] of of.entries()) {
    if (weights[i] === 0) continue;
    last = each;
    left -= weights[i]!;
    if (left < 0) break;
  }
  return last;
}

export const maxOf = <T>(of: readonly T[], value: (each: T) => number): number =>
  of.reduce((most, each) => Math.max(most, value(each)), Number.NEGATIVE_INFINITY);

export const minOf = <T>(of: readonly T[], value: (each: T) => number): number =>
  of.reduce((least, each) => Math.min(least, value(each)), Number.POSITIVE_INFINITY);
