/** Sums, added in order from 0. */

export function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

export function sumOf<T>(list: Iterable<T>, value: (item: T) => number): number {
  let total = 0;
  for (const item of list) total += value(item);
  return total;
}
