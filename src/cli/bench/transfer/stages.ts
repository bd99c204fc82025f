/** What limits a transfer: its stages' times by hand, and the slowest of them. */
import type { CopyRate } from '../../../lab/copy-rates.ts';
import { quantile } from '../../../measure/statistics.ts';
import type { HandCopy } from '../../../transport/by-hand.ts';

/** Milliseconds for the rate's bytes, medians, by stage; 'beside' are an engine's two while the other engine's run. */
export function stagesMs({ alone, beside }: CopyRate): Record<StageName, number> {
  return {
    'dev→map': median(alone.out, ({ deviceMs }) => deviceMs),
    'map→slab': median(alone.out, ({ slabMs }) => slabMs),
    'slab→map': median(alone.in, ({ slabMs }) => slabMs),
    'map→dev': median(alone.in, ({ deviceMs }) => deviceMs),
    'out beside': median(beside.out, halfMs),
    'in beside': median(beside.in, halfMs),
  };
}

export type StageName = 'dev→map' | 'map→slab' | 'slab→map' | 'map→dev' | 'out beside' | 'in beside';

const BESIDE: readonly StageName[] = ['out beside', 'in beside'];
const ALONE: readonly StageName[] = ['dev→map', 'map→slab', 'slab→map', 'map→dev'];

/**
 * On a software adapter both engines and their devices share the cores, so a stage is what an engine does for the
 * transfer, measured while the other one does its; on a GPU it is one copy of the four, alone.
 */
export function slowestStage(rate: CopyRate, software: boolean): { name: StageName; ms: number } {
  const ms = stagesMs(rate);
  const names = software ? BESIDE : ALONE;
  const name = names.reduce((slowest, each) => (ms[each] > ms[slowest] ? each : slowest));
  return { name, ms: ms[name] };
}

/** An engine's two stages without what lies between them. */
export const halfMs = ({ deviceMs, slabMs }: HandCopy): number => deviceMs + slabMs;

const median = (copies: readonly HandCopy[], ms: (copy: HandCopy) => number): number =>
  quantile(copies.map(ms), 0.5);
