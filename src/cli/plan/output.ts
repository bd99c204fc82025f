/** What `kvferry plan` prints: the answer, its certainty, the front, and commands. */

import { formatCount, formatMs, plural } from '../../measure/format.ts';
import type { PlanReport, PlanRow } from '../../measure/schemas/plan-report.ts';
import { left, right } from '../../report/document.ts';
import type { Output } from '../deps.ts';
import { clip, commandLines } from '../output/format.ts';
import { packed, printer, renderTable, type TableStyle } from '../output/table.ts';
import { movingLines, timesOf } from '../simulate/output.ts';
import { modelNote } from './commands.ts';
import {
  answerOf,
  certaintyOf,
  formatRate,
  goalOf,
  isChosen,
  lengthsOf,
  outgrown,
  triedOf,
} from './words.ts';

export function printPlan(report: PlanReport, out: Output, color: boolean): void {
  const { print, say, c, style } = printer(out, color);
  const { workload, engine } = report;
  print(['']);
  say(`kvferry ${report.kvferry} plan: ${goalOf(report)}`, c.bold);
  say(`${timesOf(report)}. No model ran.`, c.yellow);
  for (const line of movingLines(report)) say(line, c.yellow);
  say(
    `${workload.source}${workload.scale === '1' ? '' : `, lengths ${workload.scale}`}${workload.own_rate === null ? '' : `, its own rate ${formatRate(workload.own_rate)} requests per second`}; KV of ${report.model}, pools of ${formatCount(engine.p_blocks)} and ${formatCount(engine.d_blocks)} blocks of ${engine.block_size} tokens.`,
  );
  say(triedOf(report));
  for (const note of report.notes) say(note, c.yellow);
  print(['']);
  say(answerOf(report), report.chosen ? c.green : c.red);
  for (const sentence of certaintyOf(report)) say(sentence);
  if (report.front.length > 0) {
    print(['']);
    print(frontTable(report, style));
    say(
      `${report.chosen ? '*: chosen. ' : ''}${report.front.some((row) => outgrown(row, report.slo.attainment)) ? '!: requests arrive faster than they are served. ' : ''}pull: from how many tokens on P pulls D's KV; sets: rolesets. met: the share of requests that meet the SLO, with its 95% interval.${lengthsOf(report.front)}`,
      c.dim,
    );
  }
  if (report.commands.length > 0) {
    print(['']);
    for (const command of report.commands) print(commandLines(command));
    const note = modelNote(report);
    if (note !== null) say(note, c.dim);
  }
  print(['']);
  say(
    `${plural(report.simulations, 'simulation')} with ${formatCount(report.simulated_requests)} requests in total; seed ${report.seed}${report.seeds > 1 ? `, ${report.seeds} seeds each` : ''}.`,
    c.dim,
  );
}

const LONGEST_POLICY = 20;

function frontTable({ front, chosen, goal, slo }: PlanReport, style: TableStyle): string[] {
  const byRate = goal.kind === 'goodput';
  const columns = [
    left(''),
    ...right('P', 'D'),
    left('routing'),
    ...right('pull', 'sets'),
    ...(byRate ? right('req/s') : []),
    ...packed('met, %', '', '95%'),
    ...packed('TTFT', 'p50', 'p90'),
    ...packed('TPOT', 'p90'),
    ...(byRate ? [] : right('good/s')),
  ];
  return renderTable(
    columns,
    front.map((row) => [
      isChosen(row, chosen) ? '*' : outgrown(row, slo.attainment) ? '!' : '',
      String(row.prefill),
      String(row.decode),
      clip(row.routing, LONGEST_POLICY),
      pullOf(row),
      String(row.rolesets),
      ...(byRate ? [formatRate(row.requests_per_second)] : []),
      (100 * row.share).toFixed(1),
      `${(100 * row.low).toFixed(0)}-${(100 * row.high).toFixed(0)}`,
      ...[row.ttft_ms?.p50, row.ttft_ms?.p90, row.tpot_ms?.p90].map((ms) => formatMs(ms ?? null)),
      ...(byRate ? [] : [formatRate(row.good_per_second)]),
    ]),
    style,
  );
}

/** The pull threshold in tokens, or a word for the mode. */
function pullOf({ mode, threshold }: PlanRow): string {
  if (threshold !== null) return `≥${threshold}`;
  return { unidirectional: 'no', 'decode-local': 'D', monolithic: 'mono', bidirectional: '' }[mode];
}
