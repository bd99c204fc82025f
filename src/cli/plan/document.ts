/** A plan as a page or Markdown: the front, what each rate gave, how the search went. */
import type { PlanReport, PlanRow } from '../../measure/plan-report.ts';
import type { CurvePiece, Piece, ReportDocument, Section } from '../../report/document.ts';
import { formatCount, formatMs, plural } from '../format.ts';
import { timesOf } from '../simulate/output.ts';
import { left, right, under } from '../table.ts';
import { modelNote } from './commands.ts';
import { answerOf, certaintyOf, countsOf, formatRate, goalOf, policyOf, triedOf, wantedOf } from './words.ts';

export function planDocument(report: PlanReport): ReportDocument {
  const { chosen, workload, goodput } = report;
  return {
    command: 'kvferry plan',
    headline: chosen ? headline(report, chosen) : 'Nothing keeps the SLO',
    subtitle: `${capital(goalOf(report))}, under ${workload.source}`,
    verdicts: [
      { tone: chosen ? 'good' : 'bad', text: answerOf(report) },
      ...certaintyOf(report).map((text) => ({ tone: 'plain' as const, text })),
      { tone: 'plain', text: `${timesOf(report)}. Nothing was computed.` },
      ...report.notes.map((text) => ({ tone: 'plain' as const, text })),
    ],
    sections: [
      frontSection(report),
      ...(goodput ? [rateSection(goodput.tried, report)] : []),
      searchSection(report),
      ...(report.commands.length > 0 ? [commandSection(report)] : []),
    ],
    footer: `kvferry ${report.kvferry} plan, seed ${report.seed}. No engine ran: who did what when is the real policy's, how long it took is the model's.`,
  };
}

const capital = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

const headline = ({ goal, goodput }: PlanReport, chosen: PlanRow): string =>
  goal.kind === 'goodput' && goodput
    ? `${formatRate(goodput.requests_per_second)} requests a second with ${countsOf(chosen)}`
    : `${plural(chosen.engines, 'engine')}: ${countsOf(chosen)}`;

/** The share that keeps the SLO by something, beside the share that is wanted. */
function keptCurve(
  rows: readonly PlanRow[],
  slo: PlanReport['slo'],
  by: { name: string; label: string; of: (row: PlanRow) => number },
): CurvePiece {
  const last = Math.max(0, ...rows.map(by.of));
  return {
    kind: 'curve',
    title: `Requests that keep the SLO, by ${by.name}`,
    x: { label: by.label },
    y: { label: '% of requests' },
    series: [
      {
        name: 'keep it, with 95% interval',
        points: rows.map((row) => ({
          ...{ x: by.of(row), y: 100 * row.share },
          ...{ low: 100 * row.low, high: 100 * row.high },
        })),
      },
      {
        name: `wanted: ${wantedOf(slo)}`,
        dashed: true,
        points: [0, last].map((x) => ({ x, y: 100 * slo.attainment })),
      },
    ],
  };
}

function frontSection(report: PlanReport): Section {
  const { front, goal, slo } = report;
  const chart: CurvePiece =
    goal.kind === 'goodput'
      ? {
          kind: 'curve',
          title: 'Requests a second that engines bear within the SLO',
          x: { label: 'engines' },
          y: { label: 'requests a second' },
          series: [
            { name: 'goodput', points: front.map((row) => ({ x: row.engines, y: row.requests_per_second })) },
          ],
        }
      : keptCurve(front, slo, { name: 'number of engines', label: 'engines', of: ({ engines }) => engines });
  return {
    title: 'Fewer or more engines',
    intro:
      'The best of each number of engines, of those that were simulated at full length. What fewer engines do as well in every respect is left out.',
    pieces: [chart, rowsTable('The front', front)],
  };
}

function rateSection(tried: readonly PlanRow[], { slo }: PlanReport): Section {
  const of = (row: PlanRow): number => row.requests_per_second;
  return {
    title: 'Faster or slower',
    intro: 'The chosen fleet at every rate that was tried at full length, with the same draws.',
    pieces: [keptCurve(tried, slo, { name: 'rate', label: 'requests a second', of })],
  };
}

function rowsTable(title: string, rows: readonly PlanRow[]): Piece {
  return {
    kind: 'table',
    title,
    columns: [
      left(''),
      left('policy'),
      ...right('requests/s'),
      ...under('keep the SLO, %', '', '95% interval'),
      ...under('TTFT, ms', 'p50', 'p90'),
      ...under('TPOT, ms', 'p50', 'p90'),
      ...under('busy, %', 'P', 'D'),
      left('verdict'),
    ],
    rows: rows.map((row) => [
      { text: countsOf(row), strong: row.met },
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
    title: 'How it was found',
    intro: `${plural(simulations, 'simulation')} of ${formatCount(simulated_requests)} requests in all, the same arrivals for every candidate. ${triedOf(report)}`,
    pieces: [
      ...(not_told_apart.length > 0 ? [rowsTable('Not told apart from the chosen one', not_told_apart)] : []),
      {
        kind: 'table',
        title: 'Rounds',
        folded: true,
        columns: [left('what'), ...right('requests', 'candidates', 'kept', 'times')],
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
    title: 'What to do with it',
    pieces: note === null ? commands : [...commands, { kind: 'text', text: note }],
  };
}
