/** A plan in sentences: what was found, how sure that is, and what it was held against. */
import type { PlanReport, PlanRow } from '../../measure/plan-report.ts';
import { cameAsAsked, cameOf } from '../../simulate/plan/trial.ts';
import { formatBytes, formatMs, formatPercent, plural } from '../format.ts';

/** As it was given. */
export const wantedOf = ({ attainment }: PlanReport['slo']): string =>
  `${Number((100 * attainment).toPrecision(6))}%`;

/** No more digits than a rate deserves. */
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
    ? `the fewest engines with which ${wantedOf(slo)} of ${formatRate(goal.requests_per_second)} requests a second keep ${sloOf(slo)}`
    : `the highest rate at which ${goal.engines} engines keep ${sloOf(slo)} for ${wantedOf(slo)} of requests`;

/** What the search chose from. */
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

/** The answer. */
export function answerOf(report: PlanReport): string {
  const { chosen, goodput, slo, goal } = report;
  if (!chosen) return nothingOf(report);
  const kept = `${formatPercent(chosen.share)} keep ${sloOf(slo)} (wanted ${wantedOf(slo)}; ${intervalOf(chosen)})`;
  if (goal.kind === 'fewest' || !goodput)
    return `${plural(chosen.engines, 'engine')}: ${countsOf(chosen)}, ${policyOf(chosen)}. ${kept}.`;
  return `${formatRate(goodput.requests_per_second)} requests a second with ${countsOf(chosen)}, ${policyOf(chosen)}. ${kept}.`;
}

function nothingOf({ closest, idle, slo, searched, goal }: PlanReport): string {
  const tried = goal.kind === 'fewest' ? `up to ${searched.max_engines}` : String(goal.engines);
  const what = `Nothing that was tried keeps ${sloOf(slo)} for ${wantedOf(slo)} of requests (${tried} engines).`;
  if (!closest) return what;
  const nearest = `Closest: ${countsOf(closest)}, ${policyOf(closest)}, at ${formatRate(closest.requests_per_second)} requests a second: ${formatPercent(closest.share)}, p90 of TTFT ${quantile(closest.ttft_ms)} and of TPOT ${quantile(closest.tpot_ms)}.`;
  return [what, nearest, whyOf(closest, idle, slo, goal)].join(' ');
}

const quantile = (of: PlanRow['ttft_ms']): string => (of ? `${formatMs(of.p90)} ms` : 'unknown');

function whyOf(
  closest: PlanRow,
  idle: PlanRow | null,
  slo: PlanReport['slo'],
  goal: PlanReport['goal'],
): string {
  if (idle && !idle.met)
    return `More engines do not help: even with almost no load only ${formatPercent(idle.share)} keep it, p90 of TTFT ${quantile(idle.ttft_ms)} and of TPOT ${quantile(idle.tpot_ms)}. Relax the SLO, or use faster engines (--costs).`;
  const way = goal.kind === 'fewest' ? 'raise --max-engines, or lower the rate' : 'give more --engines';
  if (closest.verdict === 'OVERLOADED')
    return `The load is unstable: OVERLOADED, far more comes than is served: ${way}.`;
  const worse = closest.missed.ttft >= closest.missed.tpot ? slo.ttft_ms : slo.tpot_ms;
  return worse === null ? '' : `With little load it is kept: ${way}.`;
}

/** How sure the answer is, a sentence each. */
export function certaintyOf(report: PlanReport): string[] {
  const { chosen, goal, goodput, slo, not_told_apart: rivals, seeds } = report;
  if (!chosen) return [];
  return [
    ...(goal.kind === 'fewest' ? sureOfFewest(chosen, report) : sureOfRate(goodput, slo)),
    ...(rivals.length > 0
      ? [
          `Not told apart from it: ${rivals
            .slice(0, 4)
            .map((row) => `${countsOf(row)}, ${policyOf(row)}`)
            .join('; ')}${rivals.length > 4 ? `; and ${rivals.length - 4} more` : ''}.`,
        ]
      : []),
    ...(chosen.verdict === 'STABLE'
      ? []
      : [
          `${chosen.verdict}: what waits grew until the sample's end. Give a longer --sample before you rely on it.`,
        ]),
    ...fewerCame(chosen),
    ...(slo.ttft_ms !== null && chosen.counted_ms / seeds < BRIEF * slo.ttft_ms
      ? [
          `The requests that count came within ${(chosen.counted_ms / seeds / 1000).toFixed(1)} s, fewer than ${BRIEF} times the SLO's TTFT: a queue that grows may not show. Give a longer --sample.`,
        ]
      : []),
  ];
}

const BRIEF = 10;

/** What came of it, as a trial tells it. */
const outcomeOf = ({ counted, due, counted_ms }: PlanRow) => ({ asked: counted, due, overMs: counted_ms });

/** Why the rate that is told is none that was simulated. */
function fewerCame(chosen: PlanRow): string[] {
  const outcome = outcomeOf(chosen);
  const asked = chosen.requests_per_second;
  const isSlower = !cameAsAsked({ ...outcome, due: (asked * outcome.overMs) / 1000 });
  const why = !cameAsAsked(outcome)
    ? 'where conversations stay long, fewer were there than will be'
    : isSlower && 'this part of the trace is slower than all of it';
  if (!why) return [];
  return [
    `Only ${formatRate(cameOf(outcome))} requests a second came of the ${formatRate(asked)} asked for, in the time that counts: ${why}. Give a longer --sample before you rely on it.`,
  ];
}

function sureOfFewest(chosen: PlanRow, { front, one_fewer: fewer, slo, workload }: PlanReport): string[] {
  const wanted = slo.attainment;
  const told = [];
  // Nothing of a trace is drawn, which has a rate of its own.
  const more = workload.own_rate === null ? '--sample or --seeds' : '--sample';
  const surer = front.find(({ engines, low }) => engines > chosen.engines && low >= wanted);
  told.push(
    chosen.low >= wanted
      ? `Its whole interval keeps it.`
      : `Not sure: its interval reaches below ${wantedOf(slo)}${surer ? `; with ${countsOf(surer)} all of it keeps it (${formatPercent(surer.low)} to ${formatPercent(surer.high)})` : `. A longer ${more} would tell`}.`,
  );
  if (fewer)
    told.push(
      !fewer.met && fewer.high < wanted
        ? `${plural(fewer.engines, 'engine')} do not: ${formatPercent(fewer.low)} to ${formatPercent(fewer.high)} with the best that was tried (${countsOf(fewer)}).`
        : `Whether ${plural(fewer.engines, 'engine')} do is not told: ${formatPercent(fewer.share)}, ${formatPercent(fewer.low)} to ${formatPercent(fewer.high)} (${countsOf(fewer)}).`,
    );
  return told;
}

function sureOfRate(goodput: PlanReport['goodput'], { attainment }: PlanReport['slo']): string[] {
  if (!goodput) return [];
  const { surely, surely_not_at: not, not_at: next, tried } = goodput;
  const yes = surely === null ? 'at no rate that was tried' : `up to ${formatRate(surely)} a second`;
  const above = tried.find(({ requests_per_second }) => requests_per_second === next);
  return [
    `Its whole interval keeps it ${yes}, and misses it ${not === null ? 'at none' : `from ${formatRate(not)} on`}; ${next === null ? 'no higher rate was tried' : `the next rate tried was ${formatRate(next)}`}.`,
    ...(above && above.share >= attainment && !cameAsAsked(outcomeOf(above))
      ? [
          `There only ${formatRate(cameOf(outcomeOf(above)))} a second came, since conversations stay longer than the sample lasts: more may be borne. Give a longer --sample.`,
        ]
      : []),
  ];
}
