/** A calibration as a document for --html and --markdown: both curves, expected loss by threshold, the policy check. */
import type { CostProfile } from '../../config/cost-profile.ts';
import { COMPUTED_TOKENS, type ExpectedRegret, logGrid, predictTtft } from '../../lab/fit-costs.ts';
import type { PolicyCheck } from '../../lab/policy-check.ts';
import { formatBytes, formatCount, formatMs, formatPercent, plural } from '../../measure/format.ts';
import {
  type CurvePiece,
  left,
  type ReportDocument,
  right,
  type Section,
  type TablePiece,
  under,
} from '../../report/document.ts';
import { THROTTLED } from '../../report/throttled.ts';
import {
  checkVerdict,
  costRows,
  doubtOf,
  measuredOn,
  POLICY_NAMES,
  recommendation,
  thresholdName,
} from './calibrate-output.ts';

export function calibrationDocument(
  profile: CostProfile,
  regret: readonly ExpectedRegret[],
  check: PolicyCheck | null,
): ReportDocument {
  const doubt = doubtOf(profile);
  const { kvferry, date, model, weight_dtype, adapter, link, block_size, block_bytes, layout, fit } = profile;
  return {
    command: 'kvferry calibrate',
    headline: recommendation(profile),
    subtitle: measuredOn(profile),
    verdicts: [
      ...(doubt ? [doubt] : []),
      ...(check ? [checkVerdict(check)] : []),
      ...(link ? [{ tone: 'plain', text: `${THROTTLED}: ${link.name}` } as const] : []),
    ],
    sections: [
      {
        title: 'Costs of pulling and recomputing',
        pieces: [curve(profile), { kind: 'facts', title: 'Fitted costs', facts: costRows(profile) }],
      },
      { title: 'Expected loss by threshold', pieces: [regretTable(profile, regret)] },
      ...(check ? [checkSection(check)] : []),
      {
        title: 'Machine and settings',
        pieces: [
          {
            kind: 'facts',
            title: 'Measured with',
            facts: [
              ['model', `${model}, ${weight_dtype}`],
              ['adapter', adapter],
              ['link', link ? `${link.name}, ${THROTTLED}` : 'none modelled'],
              ['blocks', `${block_size} tokens, ${formatBytes(block_bytes)}, ${layout}`],
              ['rounds', formatCount(fit.rounds)],
            ],
          },
        ],
      },
    ],
    footer: `kvferry ${kvferry} calibrate, ${date.slice(0, 19).replace('T', ' ')} UTC. A profile is valid only for the setup on which it was measured.`,
  };
}

const POINTS = 40;

function curve(profile: CostProfile): CurvePiece {
  const { fit, recommended_threshold: threshold } = profile;
  const tokens = [...new Set(logGrid(fit.least_tokens, fit.most_tokens, POINTS))];
  const both = tokens.map((x) => ({ x, ...predictTtft(profile, x, COMPUTED_TOKENS) }));
  const inside = threshold !== null && threshold >= fit.least_tokens && threshold <= fit.most_tokens;
  return {
    kind: 'curve',
    title: 'Time to the first token, predicted by the fitted costs',
    x: { label: 'tokens that D holds and P lacks, logarithmic', log: true },
    y: { label: 'TTFT, ms' },
    series: [
      { name: 'recompute', points: both.map(({ x, recomputeMs }) => ({ x, y: recomputeMs })) },
      { name: 'pull', points: both.map(({ x, pullMs }) => ({ x, y: pullMs })) },
    ],
    ...(inside ? { marks: [{ x: threshold, label: `recommended: ${threshold}` }] } : {}),
  };
}

const regretTable = (profile: CostProfile, regret: readonly ExpectedRegret[]): TablePiece => ({
  kind: 'table',
  title: 'Loss per turn against the better choice',
  columns: [left('threshold'), ...right('ms', '%')],
  rows: regret.map(({ threshold, regretMs, regretShare }) => [
    thresholdName(threshold, profile.recommended_threshold),
    formatMs(regretMs),
    (100 * regretShare).toFixed(1),
  ]),
  note: `Reusable lengths spread evenly (log) over ${formatCount(profile.fit.least_tokens)} to ${formatCount(profile.fit.most_tokens)}.`,
});

function checkSection({ turns, rounds, threshold, bestMs, totals }: PolicyCheck): Section {
  return {
    title: 'Policies side by side',
    intro: `The same ${plural(turns.length, 'turn')} served under each policy, in ${plural(rounds, 'alternating round')}.`,
    pieces: [
      {
        kind: 'table',
        title: 'Sums of median TTFT',
        columns: [
          left('policy'),
          { head: 'total, ms' },
          ...under("the rounds' sums", 'least', 'most'),
          ...right('lost', 'by choice', 'pulled'),
        ],
        rows: [
          ...totals.map(({ policy, totalMs, leastMs, mostMs, pulls, regretShare, choiceRegretShare }) => [
            { text: POLICY_NAMES[policy](threshold), strong: true },
            formatMs(totalMs),
            formatMs(leastMs),
            formatMs(mostMs),
            formatPercent(regretShare),
            formatPercent(choiceRegretShare),
            `${pulls} of ${turns.length * rounds}`,
          ]),
          ['better of always and never', formatMs(bestMs), '', '', '-', '-', '-'],
        ],
        note: "Lost: against the better of always and never for each turn. By choice: the same for the policy's choices alone, priced at the medians of always and never.",
      },
    ],
  };
}
