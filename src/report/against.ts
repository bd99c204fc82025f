/** A benchmark of more than two modes, policies or paths: each of them against the reference. */

import { formatInterval, plural } from '../measure/format.ts';
import { outcomeOf, TIE } from '../measure/outcome.ts';
import { type BenchPair, type Experiment, labelIn, type Ratio } from '../measure/schemas/bench-report.ts';
import { type Cell, type FiguresPiece, left, right, type TablePiece, under } from './document.ts';
import { ratioFigure, times, toneOf } from './ratio.ts';

type Compared = Pick<Experiment, 'comparisons' | 'modes'>;

/** Whether candidates are of equal rank: policies or paths. Of modes, pulling back is the candidate, if it ran. */
export const comparesEqually = ({ comparisons }: Compared): boolean =>
  Object.keys(comparisons).length > 1 && !('bidirectional' in comparisons);

const cell = (ratio: Ratio): Cell => ({
  text:
    ratio.ratio === null
      ? '-'
      : formatInterval({ ...ratio, value: ratio.ratio }, (value) => times({ ...ratio, ratio: value })),
  tone: toneOf(ratio),
});

const reference = ({ comparisons, modes }: Compared): string =>
  labelIn(modes, Object.values(comparisons)[0]!.reference);

/** Empty unless there are several candidates: one has tables of its own. */
export function againstTables(compared: Compared): TablePiece[] {
  const { comparisons, modes } = compared;
  const rows = Object.entries(comparisons);
  if (rows.length < 2) return [];
  return [
    {
      kind: 'table',
      title: `Each against ${reference(compared)}: times as fast, with its 95% interval`,
      columns: [left(''), ...under('TTFT', 'mean', 'p50', 'p90'), ...right('mean TPOT', 'mean latency')],
      rows: rows.map(([key, { ttft_ms, tpot_ms, latency_ms }]) => [
        { text: labelIn(modes, key), strong: true },
        ...[ttft_ms.mean, ttft_ms.p50, ttft_ms.p90, tpot_ms.mean, latency_ms.mean].map(cell),
      ]),
      note: `Above 1: faster than ${reference(compared)}; below 1: slower.`,
    },
  ];
}

/** The mean TTFT of each candidate of equal rank. */
export function againstFigures({ comparisons, modes }: Compared): FiguresPiece {
  return {
    kind: 'figures',
    figures: Object.entries(comparisons).map(([key, { reference, ttft_ms }]) =>
      ratioFigure(`mean TTFT: ${labelIn(modes, key)} against ${labelIn(modes, reference)}`, ttft_ms.mean),
    ),
  };
}

/** How many candidates of equal rank are faster, slower, or neither. */
export function againstHeadline(compared: Compared): string {
  const means = Object.values(compared.comparisons).map(({ ttft_ms }: BenchPair) => ttft_ms.mean);
  const outcomes = means.flatMap(({ ratio, low, high }) =>
    ratio === null ? [] : [low === null ? 'few' : outcomeOf({ ratio, low, high })],
  );
  const parts = (
    [
      ['ahead', 'faster'],
      ['behind', 'slower'],
      ['tie', `with ${TIE}`],
      ['few', 'with too few requests to judge'],
    ] as const
  ).flatMap(([outcome, words]) => {
    const count = outcomes.filter((each) => each === outcome).length;
    return count === 0 ? [] : [`${count} ${words}`];
  });
  return `Mean time to the first token of ${plural(means.length, 'candidate')} against ${reference(compared)}: ${parts.join(', ')}`;
}
