/** What the benchmark and a contender's process say to each other. */
import type { ContenderName, Shape } from './contenders.ts';

export type ToContender =
  | { kind: 'prepare'; contender: ContenderName; adapter: string; shape: Shape }
  | { kind: 'round' };

export type FromContender =
  | { kind: 'ready' }
  /** `sample`: some of the product, for the comparison with float64. */
  | { kind: 'done'; ms: number; sample: number[] }
  | { kind: 'missing'; why: string }
  | { kind: 'failed'; why: string };
