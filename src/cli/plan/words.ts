/** A plan in sentences: the answer, its certainty, and what was tried. */

import { formatBytes, formatCount, formatMs, formatPercent, listed, plural } from '../../measure/format.ts';
import type { PlanReport, PlanRow } from '../../measure/schemas/plan-report.ts';
import { arrivalRateOf, arrivedAsPlanned } from '../../simulate/plan/outcome.ts';

/** The required share, as the user gave it. */
export const wantedOf = ({ attainment }: PlanReport['slo']): string =>
  `${Number((100 * attainment).toPrecision(6))}%`;

/** A rate with three significant digits, or whole from 100 up. */
export const formatRate = (perSecond: number): string =>
  perSecond >= 100 ? perSecond.toFixed(0) : String(Number(perSecond.toPrecision(3)));

export const countsOf = ({ prefill, decode }: PlanRow): string => `${prefill} P + ${decode} D`;

export function policyOf(row: PlanRow): string {
  const { routing, mode, threshold, placement, rolesets, store_bytes: bytes } = row;
  const pulls = threshold === null ? mode : `${mode} from ${threshold}`;
  const sets = rolesets > 1 ? ` (${rolesets} rolesets)` : '';
  return `${routing}, ${pulls}, ${placement}${sets}${bytes === null ? '' : `, a store of ${formatBytes(bytes)}`}`;
}

function sloOf({ ttft_ms, tpot_ms }: PlanReport['slo']): string {
  const limits = [
    ...(ttft_ms === null ? [] : [`TTFT ${ttft_ms} ms`]),
    ...(tpot_ms === null ? [] : [`TPOT ${tpot_ms} ms`]),
  ];
  return limits.join(' and ');
}

export const goalOf = ({ goal, slo }: PlanReport): string =>
  goal.kind === 'fewest'
    ? `the fewest engines with which ${wantedOf(slo)} of ${formatRate(goal.requests_per_second)} requests per second meet ${sloOf(slo)}`
    : `the highest rate at which ${goal.engines} engines meet ${sloOf(slo)} for ${wantedOf(slo)} of requests`;

/** The search space. */
export function triedOf({ searched }: PlanReport): string {
  const { routing, mode, threshold, placement, store } = searched;
  const stores = store.map((bytes) => (bytes === null ? 'none' : formatBytes(bytes))).join(', ');
  const parts = [
    ...[routing, mode].map((names) => names.join(', ')),
    ...(mode.includes('bidirectional') ? [`thresholds ${threshold.join(', ')}`] : []),
    placement.join(', '),
    ...(store.every((bytes) => bytes === null) ? [] : [`a store of ${stores}`]),
  ];
  return `Tried: ${parts.join('; ')}.`;
}

const intervalOf = ({ low, high }: PlanRow): string =>
  `95% interval ${formatPercent(low)} to ${formatPercent(high)}`;

/** Whether a row of the front, with one fleet of each size, is the chosen one's. */
export const isChosen = (row: PlanRow, chosen: PlanRow | null): boolean =>
  chosen !== null && row.prefill === chosen.prefill && row.decode === chosen.decode;

/** Whether enough requests meet the SLO, and yet the fleet does not do, because its queue grows. */
export const outgrown = ({ met, share }: PlanRow, attainment: number): boolean => !met && share >= attainment;

/** What shows that the queue of such a fleet grows. */
const behindOf = ({ verdict, wait_growth: growth }: PlanRow): string =>
  verdict === 'STABLE' ? `TTFT grew by ${formatPercent(growth)} of the time` : verdict;

/** Which rows were simulated longer than the others; empty: none. */
export function lengthsOf(front: readonly PlanRow[]): string {
  const most = Math.max(...front.map(({ sample }) => sample));
  const [other] = front.filter(({ sample }) => sample < most);
  if (!other) return '';
  const longest = front.filter(({ sample }) => sample === most).map(countsOf);
  return ` ${listed(longest)}: simulated with ${plural(most, 'request')}; the others with ${formatCount(other.sample)}, so their figures are less certain.`;
}

/** The answer. */
export function answerOf(report: PlanReport): string {
  const { chosen, goodput, slo, goal } = report;
  if (!chosen) return nothingOf(report);
  const attained = `${formatPercent(chosen.share)} meet ${sloOf(slo)} (required ${wantedOf(slo)}; ${intervalOf(chosen)})`;
  if (goal.kind === 'fewest' || !goodput)
    return `${plural(chosen.engines, 'engine')}: ${countsOf(chosen)}, ${policyOf(chosen)}. ${attained}.`;
  return `${formatRate(goodput.requests_per_second)} requests per second with ${countsOf(chosen)}, ${policyOf(chosen)}. ${attained}.`;
}

function nothingOf(report: PlanReport): string {
  const { closest, slo, searched, goal } = report;
  const tried = goal.kind === 'fewest' ? `up to ${searched.max_engines}` : String(goal.engines);
  const what = `No fleet that was tried meets ${sloOf(slo)} for ${wantedOf(slo)} of requests (${tried} engines).`;
  if (!closest) return what;
  const nearest = `Closest: ${countsOf(closest)}, ${policyOf(closest)}, at ${formatRate(closest.requests_per_second)} requests per second: ${formatPercent(closest.share)}, p90 of TTFT ${quantile(closest.ttft_ms)} and of TPOT ${quantile(closest.tpot_ms)}.`;
  return [what, nearest, whyOf(closest, report)].join(' ');
}

const quantile = (of: PlanRow['ttft_ms']): string => (of ? `${formatMs(of.p90)} ms` : 'unknown');

/** A sentence if more requests failed than missed either limit. */
const failuresOf = ({ missed: { ttft, tpot, failed }, counted }: PlanRow): string | null =>
  failed > Math.max(ttft, tpot)
    ? `${failed} of ${plural(counted, 'request')} failed: kvferry simulate with this fleet lists the errors.`
    : null;

function whyOf(closest: PlanRow, { idle, slo, goal, workload }: PlanReport): string {
  if (idle && !idle.met)
    return `More engines do not help: even with almost no load only ${formatPercent(idle.share)} meet it, p90 of TTFT ${quantile(idle.ttft_ms)} and of TPOT ${quantile(idle.tpot_ms)}. ${failuresOf(idle) ?? 'Relax the SLO, or use faster engines (--costs).'}`;
  const way = goal.kind === 'fewest' ? 'raise --max-engines, or lower the rate' : 'give more --engines';
  if (closest.verdict === 'OVERLOADED')
    return `OVERLOADED: requests arrive far faster than they are served; ${way}.`;
  if (outgrown(closest, slo.attainment))
    return `Enough requests meet it, but they arrive faster than they are served (${behindOf(closest)}); ${way}.`;
  const failures = failuresOf(closest);
  if (failures) return failures;
  const worse = closest.missed.ttft >= closest.missed.tpot ? slo.ttft_ms : slo.tpot_ms;
  const load = workload.own_rate === null ? 'low load' : 'low load and even gaps';
  return worse === null ? '' : `At ${load} the SLO is met: ${way}.`;
}

/** How certain the answer is, as sentences. */
export function certaintyOf(report: PlanReport): string[] {
  const { chosen, goal, slo, not_told_apart: rivals, seeds } = report;
  if (!chosen) return [];
  const longer = sampled(report);
  return [
    ...(goal.kind === 'fewest' ? sureOfFewest(chosen, report) : sureOfRate(report)),
    ...(rivals.length > 0
      ? [
          `Statistically no different: ${rivals
            .slice(0, 4)
            .map((row) => `${countsOf(row)}, ${policyOf(row)}`)
            .join('; ')}${rivals.length > 4 ? `; and ${rivals.length - 4} more` : ''}.`,
        ]
      : []),
    ...(chosen.verdict === 'STABLE'
      ? []
      : [
          `${chosen.verdict}: the queue grew until the end of the sample. Give a longer ${longer} before relying on this plan.`,
        ]),
    ...(chosen.wait_growth < GROWS
      ? []
      : [
          `TTFT grew by ${formatPercent(chosen.wait_growth)} of the time in which the counted requests arrived: the fleet may serve that much less. Give a longer ${longer}, or more engines.`,
        ]),
    ...fewerArrived(chosen, longer),
    ...(slo.ttft_ms !== null && chosen.counted_ms / seeds < BRIEF * slo.ttft_ms
      ? [
          `The counted requests arrived within ${(chosen.counted_ms / seeds / 1000).toFixed(1)} s, less than ${BRIEF} times the SLO's TTFT: a growing queue may not show. Give a longer ${longer}.`,
        ]
      : []),
  ];
}

const BRIEF = 10;
/** Growth of TTFT that is worth telling, as a share of the time. */
const GROWS = 0.01;

/** What a longer simulation needs. */
const sampled = ({ chosen, workload }: PlanReport): string =>
  workload.own_rate !== null && chosen!.with_warm_up >= workload.requests ? 'trace' : '--sample';

/** The row's arrivals in the shape of a trial's outcome. */
const outcomeOf = ({ counted, due, counted_ms }: PlanRow) => ({ counted, due, countedMs: counted_ms });

/** A sentence if the simulated rate stayed below the reported one. */
function fewerArrived(chosen: PlanRow, what: string): string[] {
  const outcome = outcomeOf(chosen);
  const perSecond = chosen.requests_per_second;
  const isSlower = !arrivedAsPlanned({ ...outcome, due: (perSecond * outcome.countedMs) / 1000 });
  const why = !arrivedAsPlanned(outcome)
    ? 'conversations are long, so their number had not yet reached its steady level'
    : isSlower && 'this part of the trace is slower than the whole trace';
  if (!why) return [];
  return [
    `Only ${formatRate(arrivalRateOf(outcome))} of ${formatRate(perSecond)} requests per second arrived in the counted time: ${why}. Give a longer ${what} before relying on this plan.`,
  ];
}

function sureOfFewest(chosen: PlanRow, report: PlanReport): string[] {
  const { front, one_fewer: fewer, slo } = report;
  const wanted = slo.attainment;
  const sentences = [];
  // Shorter simulations are surer than they should be.
  const surer = front.find(
    ({ engines, low, sample }) => engines > chosen.engines && sample >= chosen.sample && low >= wanted,
  );
  sentences.push(
    chosen.low >= wanted
      ? `The whole interval meets the requirement.`
      : `Not certain: the interval reaches below ${wantedOf(slo)}${surer ? `; with ${countsOf(surer)} the whole interval meets it (${formatPercent(surer.low)} to ${formatPercent(surer.high)})` : `. A longer ${sampled(report)} would narrow it`}.`,
  );
  if (fewer) sentences.push(sureOfFewer(fewer, wanted));
  return sentences;
}

function sureOfFewer(fewer: PlanRow, wanted: number): string {
  const engines = plural(fewer.engines, 'engine');
  const counts = countsOf(fewer);
  if (outgrown(fewer, wanted))
    return `With ${engines} requests arrive faster than they are served (${counts}: ${behindOf(fewer)}).`;
  return !fewer.met && fewer.high < wanted
    ? `With ${engines} it is not met: ${formatPercent(fewer.low)} to ${formatPercent(fewer.high)} with the best fleet tried (${counts}).`
    : `Whether ${engines} would do is uncertain: ${formatPercent(fewer.share)}, ${formatPercent(fewer.low)} to ${formatPercent(fewer.high)} (${counts}).`;
}

function sureOfRate(report: PlanReport): string[] {
  const { goodput, slo } = report;
  if (!goodput) return [];
  const { surely, surely_not_at: not, not_at: next, tried } = goodput;
  const yes = surely === null ? 'at no rate tried' : `up to ${formatRate(surely)} per second`;
  const above = tried.find(({ requests_per_second }) => requests_per_second === next);
  return [
    `The whole interval meets the requirement ${yes}, and ${not === null ? 'no rate that was tried misses it for certain' : `misses it from ${formatRate(not)} up`}; ${next === null ? 'no higher rate was tried' : `the next rate tried was ${formatRate(next)}`}.`,
    ...(above && above.share >= slo.attainment ? [whyNotAt(outcomeOf(above), sampled(report))] : []),
  ];
}

/** Why a rate at which enough requests met the SLO is not sustained. */
const whyNotAt = (outcome: ReturnType<typeof outcomeOf>, what: string): string =>
  arrivedAsPlanned(outcome)
    ? 'At that rate enough requests met it, but they arrive faster than they are served, so the wait grows without end.'
    : `At that rate only ${formatRate(arrivalRateOf(outcome))} per second arrived, because conversations last longer than the sample: the fleet may sustain more. Give a longer ${what}.`;
