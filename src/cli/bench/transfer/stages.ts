/** What limits a transfer: the times of its single stages, and the slowest one. */
import type { CopyRate } from '../../../lab/copy-rates.ts';
import { median } from '../../../measure/statistics.ts';
import type { HandCopy } from '../../../transport/by-hand.ts';

/** Median milliseconds per stage for the rate's bytes; 'beside' are an engine's two stages while the other engine's run. */
export function stagesMs({ alone, concurrent }: CopyRate): Record<StageName, number> {
  return {
    'dev→map': medianOf(alone.out, ({ deviceMs }) => deviceMs),
    'map→slab': medianOf(alone.out, ({ slabMs }) => slabMs),
    'slab→map': medianOf(alone.in, ({ slabMs }) => slabMs),
    'map→dev': medianOf(alone.in, ({ deviceMs }) => deviceMs),
    'out beside': medianOf(concurrent.out, halfMs),
    'in beside': medianOf(concurrent.in, halfMs),
  };
}

export type StageName = 'dev→map' | 'map→slab' | 'slab→map' | 'map→dev' | 'out beside' | 'in beside';

const CONCURRENT: readonly StageName[] = ['out beside', 'in beside'];
const ALONE: readonly StageName[] = ['dev→map', 'map→slab', 'slab→map', 'map→dev'];

/**
 * On a software adapter both engines and their devices share the cores, so a stage is all that an engine does for the
 * transfer, measured while the other engine works too. On a GPU it is a single one of the four copies.
 */
export function slowestStage(rate: CopyRate, software: boolean): { name: StageName; ms: number } {
  const ms = stagesMs(rate);
  const names = software ? CONCURRENT : ALONE;
  const name = names.reduce((slowest, each) => (ms[each] > ms[slowest] ? each : slowest));
  return { name, ms: ms[name] };
}

/** An engine's two stages, without the time between them. */
export const halfMs = ({ deviceMs, slabMs }: HandCopy): number => deviceMs + slabMs;

const medianOf = (copies: readonly HandCopy[], ms: (copy: HandCopy) => number): number =>
  median(copies.map(ms));
