/** A plan as a report document: the front, results by rate, the search. */

import { formatCount, formatMs, plural } from '../../measure/format.ts';
import type { PlanReport, PlanRow } from '../../measure/schemas/plan-report.ts';
import {
  type CurvePiece,
  left,
  type Piece,
  type ReportDocument,
  right,
  type Section,
  under,
} from '../../report/document.ts';
import { movingLines, timesOf } from '../simulate/output.ts';
import { modelNote } from './commands.ts';
import {
  answerOf,
  certaintyOf,
  countsOf,
  formatRate,
  goalOf,
  isChosen,
  lengthsOf,
  policyOf,
  triedOf,
  wantedOf,
} from './words.ts';

export function planDocument(report: PlanReport): ReportDocument {
  const { chosen, workload, goodput } = report;
  return {
    command: 'kvferry plan',
    headline: chosen ? headline(report, chosen) : 'No fleet meets the SLO',
    subtitle: `${capital(goalOf(report))}, under ${workload.source}`,
    verdicts: [
      { tone: chosen ? 'good' : 'bad', text: answerOf(report) },
      ...certaintyOf(report).map((text) => ({ tone: 'plain' as const, text })),
      { tone: 'plain', text: `${timesOf(report)}. No model ran.` },
      ...movingLines(report).map((text) => ({ tone: 'plain' as const, text })),
      ...report.notes.map((text) => ({ tone: 'plain' as const, text })),
    ],
    sections: [
      frontSection(report),
      ...(goodput ? [rateSection(goodput.tried, report)] : []),
      searchSection(report),
      ...(report.commands.length > 0 ? [commandSection(report)] : []),
    ],
    footer: `kvferry ${report.kvferry} plan, seed ${report.seed}. No engine ran: decisions come from the real policy code, durations from the cost model.`,
  };
}

const capital = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

const headline = ({ goal, goodput }: PlanReport, chosen: PlanRow): string =>
  goal.kind === 'goodput' && goodput
    ? `${formatRate(goodput.requests_per_second)} requests per second with ${countsOf(chosen)}`
    : `${plural(chosen.engines, 'engine')}: ${countsOf(chosen)}`;

/** The share that meets the SLO as a curve, with the required share. */
function keptCurve(
  rows: readonly PlanRow[],
  slo: PlanReport['slo'],
  by: { name: string; label: string; of: (row: PlanRow) => number },
): CurvePiece {
  const last = Math.max(0, ...rows.map(by.of));
  return {
    kind: 'curve',
    title: `Requests that meet the SLO, by ${by.name}`,
    x: { label: by.label },
    y: { label: '% of requests' },
    series: [
      {
        name: 'meet the SLO, with 95% interval',
        points: rows.map((row) => ({
          ...{ x: by.of(row), y: 100 * row.share },
          ...{ low: 100 * row.low, high: 100 * row.high },
        })),
      },
      {
        name: `required: ${wantedOf(slo)}`,
        dashed: true,
        points: [0, last].map((x) => ({ x, y: 100 * slo.attainment })),
      },
    ],
  };
}

function frontSection(report: PlanReport): Section {
  const { front, chosen, goal, slo } = report;
  const chart: CurvePiece =
    goal.kind === 'goodput'
      ? {
          kind: 'curve',
          title: 'Requests per second within the SLO',
          x: { label: 'engines' },
          y: { label: 'requests per second' },
          series: [
            { name: 'goodput', points: front.map((row) => ({ x: row.engines, y: row.requests_per_second })) },
          ],
        }
      : keptCurve(front, slo, { name: 'number of engines', label: 'engines', of: ({ engines }) => engines });
  return {
    title: 'Results by number of engines',
    intro: `${goal.kind === 'goodput' ? frontOfRates(front) : BEST_OF_EACH_SIZE}${lengthsOf(front)}`,
    pieces: [chart, rowsTable('Pareto front', front, chosen)],
  };
}

const BEST_OF_EACH_SIZE =
  'The best fleet of each size, and the chosen one in bold. Fleets that a smaller one matches in every respect are omitted.';

/** The last row is the chosen fleet's. */
function frontOfRates(front: readonly PlanRow[]): string {
  return front.length > 1
    ? 'The chosen fleet in bold, and smaller ones with its policy. Fleets whose rate a smaller one reaches are omitted.'
    : 'The chosen fleet. No smaller one that was tried keeps the SLO.';
}

function rateSection(tried: readonly PlanRow[], { slo }: PlanReport): Section {
  const of = (row: PlanRow): number => row.requests_per_second;
  return {
    title: 'Results by rate',
    intro: 'The chosen fleet at every rate tried at full length, with the same random draws.',
    pieces: [keptCurve(tried, slo, { name: 'rate', label: 'requests per second', of })],
  };
}

function rowsTable(title: string, rows: readonly PlanRow[], chosen: PlanRow | null = null): Piece {
  return {
    kind: 'table',
    title,
    columns: [
      left(''),
      left('policy'),
      ...right('requests/s'),
      ...under('meet the SLO, %', '', '95% interval'),
      ...under('TTFT, ms', 'p50', 'p90'),
      ...under('TPOT, ms', 'p50', 'p90'),
      ...under('busy, %', 'P', 'D'),
      { head: 'verdict' },
    ],
    rows: rows.map((row) => [
      { text: countsOf(row), strong: isChosen(row, chosen) },
      policyOf(row),
      formatRate(row.requests_per_second),
      { text: (100 * row.share).toFixed(1), tone: row.met ? 'good' : 'bad' },
      `${(100 * row.low).toFixed(1)} to ${(100 * row.high).toFixed(1)}`,
      ...[row.ttft_ms?.p50, row.ttft_ms?.p90, row.tpot_ms?.p50, row.tpot_ms?.p90].map((ms) =>
        formatMs(ms ?? null),
      ),
      ...[row.busy.prefill, row.busy.decode].map((busy) => (100 * busy).toFixed(0)),
      row.verdict,
    ]),
  };
}

function searchSection(report: PlanReport): Section {
  const { rounds, simulations, simulated_requests, not_told_apart } = report;
  return {
    title: 'Search',
    intro: `${plural(simulations, 'simulation')} with ${formatCount(simulated_requests)} requests in total, the same arrivals for every candidate. ${triedOf(report)}`,
    pieces: [
      ...(not_told_apart.length > 0
        ? [rowsTable('Statistically no different from the chosen fleet', not_told_apart)]
        : []),
      {
        kind: 'table',
        title: 'Rounds',
        folded: true,
        columns: [left('step'), ...right('requests', 'candidates', 'kept', 'times')],
        rows: rounds.map(({ what, sample, candidates, kept: left, times }) => [
          what,
          ...[sample, candidates, left, times].map(formatCount),
        ]),
      },
    ],
  };
}

function commandSection(report: PlanReport): Section {
  const note = modelNote(report);
  const commands = report.commands.map((text) => ({ kind: 'command', text }) as const);
  return {
    title: 'Commands for this fleet',
    pieces: note === null ? commands : [...commands, { kind: 'text', text: note }],
  };
}
