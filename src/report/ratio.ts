/** A ratio of two times in a benchmark's report: in words, as a figure, and its tone. */
import { formatMs } from '../measure/format.ts';
import { outcomeOf, TIE } from '../measure/outcome.ts';
import type { Ratio } from '../measure/schemas/bench-report.ts';
import { type FiguresPiece, TONE_OF, type Tone } from './document.ts';

/** Whether the interval excludes neither direction. */
const isTie = ({ ratio, low, high }: Ratio): boolean =>
  ratio !== null && low !== null && high !== null && outcomeOf({ ratio, low, high }) === 'tie';

/** Empty without an interval. */
export const interval = (ratio: Ratio): string => {
  const { low, high } = ratio;
  const range = low === null || high === null ? [] : [`${low.toFixed(2)} to ${high.toFixed(2)}`];
  return [...range, ...(isTie(ratio) ? [TIE] : [])].join(': ');
};

export const toneOf = ({ ratio, low, high }: Ratio): Tone =>
  ratio === null ? 'plain' : TONE_OF[outcomeOf({ ratio, low, high })];

export const times = ({ ratio }: Ratio): string => (ratio === null ? '-' : `${ratio.toFixed(2)}x`);

export const ratioFigure = (label: string, ratio: Ratio): FiguresPiece['figures'][number] => ({
  label,
  value: times(ratio),
  note: `${formatMs(ratio.reference)} → ${formatMs(ratio.candidate)} ms${interval(ratio) ? `; 95%: ${interval(ratio)}` : ''}`,
  tone: toneOf(ratio),
});
