/** A run's key figures: what pulling gained. */
import { formatBytes, formatCount, formatMs } from '../measure/format.ts';
import { outcomeOf, SINGLE_NOISE, TIE, within } from '../measure/outcome.ts';
import type { Report, RunReport } from '../measure/schemas/report.ts';
import { storedTokens } from '../measure/spans/stored-tokens.ts';
import { sumOf } from '../sum.ts';
import { type FiguresPiece, TONE_OF } from './document.ts';

const find = (report: Report, mode: string): RunReport | undefined =>
  report.runs.find((run) => run.mode === mode);

/** Both modes decode the same way, so smaller changes of mean TPOT are noise. */
const TPOT_NOISE = 0.05;

/** null unless both disaggregated modes had turns after the first. */
export function keyFigures(report: Report): FiguresPiece | null {
  const { comparison } = report;
  const gain = comparison?.ttft_later_turns_ms;
  const without = find(report, 'unidirectional')?.summary;
  const pullingRun = find(report, 'bidirectional');
  const pulling = pullingRun?.summary;
  if (!gain || gain.mean.ratio === null || !without || !pulling) return null;
  const ttft = (label: string, { reference, candidate, ratio }: typeof gain.mean) => {
    const outcome = ratio === null ? null : outcomeOf(within(ratio, SINGLE_NOISE));
    return {
      label,
      value: ratio === null ? '-' : `${ratio.toFixed(2)}x`,
      note: `${formatMs(reference)} → ${formatMs(candidate)} ms${outcome === 'tie' ? `: ${TIE}` : ''}`,
      ...(outcome ? { tone: TONE_OF[outcome] } : {}),
    };
  };
  const tpot = (pulling.tpot_ms?.mean ?? 0) / (without.tpot_ms?.mean ?? 0);
  const tpotOutcome = outcomeOf(within(1 / tpot, TPOT_NOISE));
  const stored = sumOf(pullingRun!.turns, storedTokens);
  const saved = comparison.computed_tokens_saved ?? 0;
  return {
    kind: 'figures',
    figures: [
      ttft('mean TTFT, turns 2+', gain.mean),
      ttft('median TTFT, turns 2+', gain.p50),
      {
        label: 'tokens computed',
        value: `${saved > 0 ? '−' : ''}${formatCount(Math.abs(saved))}`,
        note: `${formatCount(without.computed_tokens)} → ${formatCount(pulling.computed_tokens)}`,
        tone: saved === 0 ? 'plain' : saved > 0 ? 'good' : 'bad',
      },
      {
        label: 'KV pulled back',
        value: formatBytes(pulling.bytes_d_to_p),
        note: `${formatCount(pulling.pulled_tokens - stored)} tokens from D`,
      },
      ...(Number.isFinite(tpot)
        ? [
            {
              label: 'mean TPOT',
              value: `${tpot >= 1 ? '+' : '−'}${Math.abs((tpot - 1) * 100).toFixed(0)}%`,
              tone: TONE_OF[tpotOutcome],
              note: `${formatMs(without.tpot_ms!.mean)} → ${formatMs(pulling.tpot_ms!.mean)} ms${tpotOutcome === 'tie' ? `: ${TIE}` : ''}`,
            },
          ]
        : []),
    ],
  };
}
