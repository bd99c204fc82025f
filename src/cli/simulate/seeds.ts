/** Compares an arm's seeds: how much results depend on random draws. */

import { formatMs } from '../../measure/format.ts';
import type { SimulatedArm } from '../../measure/schemas/simulation-report.ts';
import { packed, type TableStyle } from '../output/table.ts';
import { armTable } from './arm-table.ts';

type Seed = SimulatedArm['by_seed'][number];

interface SeedFigure {
  name: string;
  of: (seed: Seed) => number | null;
  shown: (value: number | null) => string;
}

const FIGURES: readonly SeedFigure[] = [
  { name: 'TTFT mean', of: ({ ttft_ms }) => ttft_ms?.mean ?? null, shown: formatMs },
  { name: 'TTFT p90', of: ({ ttft_ms }) => ttft_ms?.p90 ?? null, shown: formatMs },
  { name: 'TPOT p50', of: ({ tpot_ms }) => tpot_ms?.p50 ?? null, shown: formatMs },
  { name: 'req/s', of: ({ requests_per_second }) => requests_per_second, shown: (n) => n!.toFixed(2) },
  {
    name: 'good',
    of: ({ good_share }) => good_share,
    shown: (share) => (share === null ? '-' : `${Math.round(100 * share)}%`),
  },
];

/** The figures to compare between seeds that at least one seed has. */
export const seedFigures = (arms: readonly SimulatedArm[]): SeedFigure[] =>
  FIGURES.filter(({ of }) => arms.some((arm) => arm.by_seed.some((one) => of(one) !== null)));

/** Whether all seeds gave the same results, because nothing in the load is random. */
export const seedsAreAlike = (arms: readonly SimulatedArm[]): boolean =>
  arms.every(({ by_seed: [first, ...others] }) =>
    others.every((other) => JSON.stringify(other) === JSON.stringify(first)),
  );

export const ALIKE =
  'All seeds gave the same result: nothing in this load is random. Open-loop arrivals (--arrival-rate) are.';

/** The range of each figure over the seeds. */
export function seedTable(arms: readonly SimulatedArm[], style: TableStyle): string[] {
  const figures = seedFigures(arms);
  const seeds = Math.max(...arms.map((arm) => arm.seeds));
  const columns = packed(`range of ${seeds} seeds, times in ms`, ...figures.map(({ name }) => name));
  const cells = ({ by_seed }: SimulatedArm): string[] =>
    figures.map(({ of, shown }) => {
      const known = by_seed.flatMap((one) => of(one) ?? []);
      if (known.length === 0) return '-';
      const [least, most] = [shown(Math.min(...known)), shown(Math.max(...known))];
      return least === most ? least : `${least}-${most}`;
    });
  return armTable(columns, arms, cells, style);
}
