/** What `kvferry calibrate` prints: costs, quality of the fit, expected loss by threshold, and the policy check. */
import type { CostProfile } from '../../config/cost-profile.ts';
import { filledBytes } from '../../engine/kv-cache-spec.ts';
import { COMPUTED_TOKENS, type ExpectedRegret, logGrid, predictTtft } from '../../lab/fit-costs.ts';
import type { PolicyCheck } from '../../lab/policy-check.ts';
import {
  formatCount,
  formatFigures,
  formatInterval,
  formatMs,
  formatPercent,
  formatR2,
  plural,
} from '../../measure/format.ts';
import { left, right, type Verdict } from '../../report/document.ts';
import { THROTTLED } from '../../report/throttled.ts';
import { STREAMED } from '../../report/verdict.ts';
import { sumOf } from '../../sum.ts';
import { fill, WIDTH, wrap } from '../output/format.ts';
import { renderTable, type TableStyle } from '../output/table.ts';

/** Width of the costs' names. */
const NAMES = 11;

export function calibrationLines(
  profile: CostProfile,
  regret: readonly ExpectedRegret[],
  check: PolicyCheck | null,
  style: TableStyle,
): string[] {
  const doubt = doubtOf(profile);
  return [
    ...wrap(measuredOn(profile), WIDTH),
    '',
    ...costRows(profile).flatMap(([name, text]) =>
      wrap(text, WIDTH - NAMES).map((line, i) => `${fill(i === 0 ? name : '', NAMES)}${line}`),
    ),
    '',
    ...wrap(`${recommendation(profile)}.`, WIDTH),
    ...(doubt ? wrap(doubt.text, WIDTH) : []),
    '',
    ...regretLines(profile, regret, style),
    ...(check ? ['', ...checkLines(check, profile.link !== null, style)] : []),
  ];
}

export const measuredOn = ({ model, adapter, link, handover, block_size, fit }: CostProfile): string =>
  `${model} on ${adapter}, ${link ? `link ${link.name}, ${THROTTLED}` : 'no modelled link'}${handover ? `, ${STREAMED}` : ''}, blocks of ${block_size} tokens; ${plural(fit.samples, 'turn')} of ${formatCount(fit.least_tokens)} to ${formatCount(fit.most_tokens)} reusable tokens.`;

/** The fitted costs, as names and texts. */
export function costRows(profile: CostProfile): [string, string][] {
  const { pull, prefill, fit } = profile;
  const rate =
    pull.ms_per_byte > 0 ? `${formatFigures(1 / pull.ms_per_byte / 1000)} MB/s` : 'too fast to measure';
  return [
    [
      'a pull',
      `${formatMs(pull.overhead_ms + pull.fixed_ms)} ms + ${perToken(pull.ms_per_byte, profile)} (${rate})`,
    ],
    [
      'a prefill',
      `${formatFigures(prefill.ms_per_token)} ms per token, ${formatFigures(1000 * prefill.ms_per_token_context)} ms more for each 1,000 tokens before it`,
    ],
    ...storeRows(profile),
    ['a turn', `${formatMs(prefill.fixed_ms)} ms in addition (handover to D, D's first step)`],
    [
      'fit',
      `TTFT: ${formatR2(fit.ttft_r2)}, median error ${formatPercent(fit.ttft_median_error)}; transfer: ${formatR2(fit.transfer_r2)}, ${formatPercent(fit.transfer_median_error)}`,
    ],
  ];
}

/** What moving a token takes. Of windowed groups, a pull and a store move no more than the last window. */
function perToken(
  msPerByte: number,
  { block_bytes, block_size, kv_cache_groups: groups }: CostProfile,
): string {
  const msOf = (some: CostProfile['kv_cache_groups']) =>
    formatFigures((msPerByte * sumOf(some, (spec) => filledBytes(spec, block_bytes))) / block_size);
  const whole = groups.filter(({ kind }) => kind === 'full');
  const beyond = whole.length < groups.length ? `, ${msOf(whole)} ms beyond the windows` : '';
  return `${msOf(groups)} ms per token${beyond}`;
}

/** Costs of a store's tiers. */
function storeRows(profile: CostProfile) {
  const { store } = profile;
  if (!store) return [];
  const tiers = [
    ['a load', store.load],
    ['a save', store.save],
    ['its folder', store.folder_read],
  ] as const;
  return tiers.flatMap(([name, cost]): [string, string][] => {
    if (!cost) return [];
    const { fixed_ms, ms_per_byte, samples } = cost;
    return [
      [name, `${formatMs(fixed_ms)} ms + ${perToken(ms_per_byte, profile)} (${plural(samples, 'sample')})`],
    ];
  });
}

export function recommendation({ recommended_threshold: threshold, fit }: CostProfile): string {
  if (threshold === null)
    return `Recommended: do not pull; up to ${formatCount(2 * fit.most_tokens)} tokens, recomputing is predicted to be faster`;
  if (threshold === 0) return 'Recommended kv_recompute_threshold: 0, always pull';
  return `Recommended kv_recompute_threshold: ${threshold}. Below it recomputing is predicted to be faster; from it up, pulling`;
}

/** Share of TTFT's variance below which a fit explains little more than the mean. */
const LEAST_EXPLAINED = 0.5;
/** Nine of ten turns are within this many median errors (about two standard deviations). */
const ERRORS = 3;
/** Number of lengths at which pull and recompute are compared. */
const COMPARED = 60;

/**
 * Whether and how far the profile can be trusted; null: fully. If TTFT hardly changes with length, as on a link with high
 * latency, no fit explains much of its variance. What counts then is whether a turn's error is small compared with the
 * difference between pulling and recomputing.
 */
export function doubtOf(profile: CostProfile): Verdict | null {
  const { fit } = profile;
  if (fit.ttft_r2 >= LEAST_EXPLAINED) return null;
  const how = `TTFT: ${formatR2(fit.ttft_r2)}, median error ${formatPercent(fit.ttft_median_error)}`;
  const lengths = [...new Set(logGrid(fit.least_tokens, fit.most_tokens, COMPARED))];
  const near = lengths.filter((tokens) => {
    const { pullMs, recomputeMs } = predictTtft(profile, tokens, COMPUTED_TOKENS);
    const error = fit.ttft_median_error * Math.max(pullMs, recomputeMs);
    return Math.abs(pullMs - recomputeMs) <= ERRORS * error;
  });
  if (2 * near.length > lengths.length)
    return {
      tone: 'bad',
      text: `Do not rely on this profile: it explains little of what was measured (${how}), and pulling and recomputing differ by no more than that error. Other programs may have used the processor; measure again.`,
    };
  const little = `TTFT hardly changes with the length here (${how})`;
  const [least, most] = [near[0], near.at(-1)];
  if (least === undefined || most === undefined)
    return {
      tone: 'plain',
      text: `${little}, but at every measured length pulling and recomputing differ by more than that error, so the faster one is known.`,
    };
  return {
    tone: 'plain',
    text: `${little}: from ${formatCount(least)} to ${plural(most, 'token')} pulling and recomputing differ by less than that error, so the threshold may lie anywhere in this range; outside it, the faster one is known.`,
  };
}

/** '64, vLLM's default, recommended'. */
export function thresholdName(threshold: number | null, recommended: number | null): string {
  const names = [
    ...(threshold === null ? ['never pull'] : [String(threshold)]),
    ...(threshold === 0 ? ['always pull'] : []),
    ...(threshold === 64 ? ["vLLM's default"] : []),
    ...(threshold === recommended ? ['recommended'] : []),
  ];
  return names.join(', ');
}

function regretLines(
  { fit, recommended_threshold }: CostProfile,
  regret: readonly ExpectedRegret[],
  style: TableStyle,
) {
  const range = `${formatCount(fit.least_tokens)} to ${formatCount(fit.most_tokens)}`;
  return [
    `Expected loss per turn, for reusable lengths spread evenly (log) over ${range}:`,
    ...renderTable(
      [left('threshold'), ...right('ms', '%')],
      regret.map(({ threshold, regretMs, regretShare }) => [
        thresholdName(threshold, recommended_threshold),
        formatMs(regretMs),
        (100 * regretShare).toFixed(1),
      ]),
      style,
    ),
  ];
}

export const POLICY_NAMES = {
  always: () => 'always pull',
  never: () => 'never pull',
  threshold: (threshold: number) => `threshold ${threshold}`,
  'cost-aware': () => 'cost-aware',
} as const;

/** How close the cost-aware policy came to the better choice. */
export function checkVerdict({ totals }: PolicyCheck): Verdict {
  const { regretShare, choiceRegretShare } = totals.find(({ policy }) => policy === 'cost-aware')!;
  const within = regretShare <= 0.05;
  return {
    tone: within ? 'good' : 'bad',
    text: `cost-aware ended ${within ? 'within 5% of' : 'MORE THAN 5% above'} the better choice: ${formatPercent(regretShare)} measured, ${formatPercent(choiceRegretShare)} due to its choices`,
  };
}

function checkLines(check: PolicyCheck, throttled: boolean, style: TableStyle): string[] {
  const lengths = check.turns.map(({ contextTokens }) => contextTokens).sort((a, b) => a - b);
  const served = check.turns.length * check.rounds;
  const best = formatMs(check.bestMs);
  return [
    ...wrap(
      `Measured: the same ${plural(check.turns.length, 'turn')} (${lengths.join(', ')} reusable tokens) under each policy, in ${plural(check.rounds, 'alternating round')}${throttled ? `, ${THROTTLED}` : ''}. Total TTFT: sum of medians in ms [range of the rounds' sums]. Lost: against the better of always and never for each turn. By choice: the same for the policy's choices alone, priced at the medians of always and never.`,
      WIDTH,
    ),
    ...renderTable(
      [left('policy'), ...right('total TTFT', 'lost', 'by choice', 'pulled')],
      [
        ...check.totals.map(({ policy, totalMs, leastMs, mostMs, pulls, regretShare, choiceRegretShare }) => [
          POLICY_NAMES[policy](check.threshold),
          formatInterval({ value: totalMs, low: leastMs, high: mostMs }, formatMs),
          formatPercent(regretShare),
          formatPercent(choiceRegretShare),
          `${pulls} of ${served}`,
        ]),
        ['better of always and never', best, '-', '-', '-'],
      ],
      style,
    ),
    ...wrap(`${checkVerdict(check).text}.`, WIDTH),
  ];
}
