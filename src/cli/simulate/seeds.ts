/** How much hangs on the draw: an arm's seeds side by side. */
import type { SimulatedArm } from '../../measure/simulation-report.ts';
import { formatMs } from '../format.ts';
import { packed, type TableStyle } from '../table.ts';
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

/** What is compared between seeds, where any has it. */
export const seedFigures = (arms: readonly SimulatedArm[]): SeedFigure[] =>
  FIGURES.filter(({ of }) => arms.some((arm) => arm.by_seed.some((one) => of(one) !== null)));

/** Nothing was drawn: one seed tells as much as all of them. */
export const seedsAreAlike = (arms: readonly SimulatedArm[]): boolean =>
  arms.every(({ by_seed: [first, ...others] }) =>
    others.every((other) => JSON.stringify(other) === JSON.stringify(first)),
  );

export const ALIKE =
  'All seeds came out the same: nothing of this load is drawn. Conversations that come by themselves are (--arrival-rate).';

/** From the least to the most of each figure. */
export function seedTable(arms: readonly SimulatedArm[], style: TableStyle): string[] {
  const figures = seedFigures(arms);
  const seeds = Math.max(...arms.map((arm) => arm.seeds));
  const columns = packed(`least and most of ${seeds} seeds, times in ms`, ...figures.map(({ name }) => name));
  const cells = ({ by_seed }: SimulatedArm): string[] =>
    figures.map(({ of, shown }) => {
      const known = by_seed.flatMap((one) => of(one) ?? []);
      if (known.length === 0) return '-';
      const [least, most] = [shown(Math.min(...known)), shown(Math.max(...known))];
      return least === most ? least : `${least}-${most}`;
    });
  return armTable(columns, arms, cells, style);
}
