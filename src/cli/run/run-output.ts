/** What `kvferry run` prints: set-up, conversation, one table per mode, the modes side by side, verdicts. */

import { formatBytes, formatFigures, formatParameters, formatSeconds, plural } from '../../measure/format.ts';
import type { Report } from '../../measure/schemas/report.ts';
import { auditTotals } from '../../measure/summaries/audit.ts';
import { auditSentence } from '../../report/audit.ts';
import { THROTTLED } from '../../report/throttled.ts';
import {
  adapterName,
  agreement,
  hasStore,
  isStreamed,
  STREAMED,
  savings,
  storeUse,
  throttledIn,
  windowSavings,
} from '../../report/verdict.ts';
import type { Conversation } from '../../workload/types.ts';
import type { Output } from '../deps.ts';
import { clip, clipLines, fillLeft, WIDTH, withoutThreads } from '../output/format.ts';
import { routingLines } from '../output/routing-table.ts';
import { type Printer, printer } from '../output/table.ts';
import { turnPicture } from '../output/turn-picture.ts';
import { legend, modeSentence, summaryTable, turnTable } from './run-tables.ts';

const MOST_TURNS_OF_TEXT = 20;

export function printReport(
  report: Report,
  conversations: readonly Conversation[],
  out: Output,
  color: boolean,
): void {
  const { print, say, c, style } = printer(out, color);
  print(['']);
  say(`kvferry ${report.kvferry}: ${modelLine(report)} on ${adapterName(report)}`, c.bold);
  print(legend(hasStore(report.runs)), c.dim);
  say(startUpLine(report), c.dim);
  const throttled = throttledIn(report);
  if (throttled)
    say(
      `${throttled}${report.link ? rateOf(report.link) : ''}; transfer times are those of the model.`,
      c.yellow,
    );
  print(spokenLines(report, conversations, c));
  for (const run of report.runs) {
    const title = `${c.bold(run.mode)}: ${modeSentence(run, report.config)}`;
    print(['', title]);
    if (run.mode !== 'monolithic' && throttled) say(throttled, c.yellow);
    if (run.mode !== 'monolithic' && isStreamed(report)) print([STREAMED], c.yellow);
    print(turnTable(run, style));
    if (report.config.explainRouting === true) print(routingLines(run, style));
    const audits = run.turns.flatMap(({ audit }) => (audit ? [audit] : []));
    if (audits.length > 0) {
      const said = auditSentence(auditTotals(audits), String(report.config.pullPolicy));
      say(`${said} These turns do not count in the times above.`, c.yellow);
    }
    if (run.summary.first_use_compilations > 0) {
      const count = plural(run.summary.first_use_compilations, 'pipeline');
      say(`${count} compiled during this run, so its times include compiling.`, c.red);
    }
  }
  print(['', throttled ? `${c.bold('side by side')}, ${c.yellow(THROTTLED)}` : c.bold('side by side')]);
  print(summaryTable(report.runs, style));
  const [title, ...bars] = turnPicture(report);
  if (title !== undefined) print(['', c.bold(title), ...bars]);
  print(['']);
  const saved = savings(report);
  if (saved) say(saved, c.bold);
  const windows = windowSavings(report.windows, report.config);
  if (windows) say(windows, c.bold);
  const stored = storeUse(report);
  if (stored) say(stored);
  const { agree, sentence } = agreement(report);
  say(sentence, report.comparison === null ? c.yellow : agree ? c.green : c.red);
  say(recorderLine(report), c.dim);
  if (report.integrity.ok) print(['Integrity: every block is accounted for, on P and on D.'], c.dim);
  else say(integritySentence(report.integrity), c.red);
}

/** Cost of recording timings, for the mode in which it was highest. */
function recorderLine({ runs }: Report): string {
  const shares = runs.map(({ summary }) => summary.span_recorder?.share ?? 0);
  const percent = (100 * Math.max(...shares)).toPrecision(2);
  return `Recording timings took at most ${percent}% of the run (an upper bound, measured afterwards).`;
}

function integritySentence({ leftover_blocks, problem }: Report['integrity']): string {
  return `INTEGRITY: ${problem ?? 'blocks were left over'} (${plural(leftover_blocks, 'block')} still in use)`;
}

function modelLine({ model }: Report): string {
  const kv = formatBytes(model.kv_bytes_per_token);
  return `${model.name} (${formatParameters(model.parameters)} parameters, ${kv} of KV per token)`;
}

function startUpLine({ start_up }: Report): string {
  const engines = start_up.engines.map(({ engine_id, role, load_ms, compile_ms, pipelines }) => {
    const single = start_up.engines.filter((other) => other.role === role).length === 1;
    const name = !single ? engine_id : role === 'prefill' ? 'P' : 'D';
    return `${name} weights ${formatSeconds(load_ms)}, ${pipelines} shaders compiled in ${formatSeconds(compile_ms)}`;
  });
  const without = start_up.engines.filter(({ driver_threads }) => driver_threads === false);
  const threads = without.length === 0 ? '' : ` ${withoutThreads(without.map(({ engine_id }) => engine_id))}`;
  return `Start-up, not counted below: ${formatSeconds(start_up.total_ms)} (${engines.join('; ')}).${threads}`;
}

const rateOf = ({ bytes_per_second, latency_ms }: NonNullable<Report['link']>): string =>
  `, ${formatFigures(bytes_per_second / 1e9)} GB/s, ${latency_ms} ms per chunk`;

/** The messages of the first conversation, if it is text. */
function spokenLines(report: Report, conversations: readonly Conversation[], c: Printer['c']): string[] {
  const first = conversations[0];
  const turns = report.runs[0]?.turns.filter(({ conversation_id }) => conversation_id === first?.id) ?? [];
  if (first?.kind !== 'text') return [];
  const lines = turns.slice(0, MOST_TURNS_OF_TEXT).flatMap(({ turn, text }) => {
    const asked = first.turns[turn - 1]?.at(-1)?.content ?? '';
    return [
      `${fillLeft(String(turn), 3)}  ${c.cyan('user ')}  ${clip(asked, WIDTH - 12)}`,
      ...clipLines(text ?? '', WIDTH - 12, 5).map(
        (line, i) => `     ${c.dim(i === 0 ? 'model' : '     ')}  ${line}`,
      ),
    ];
  });
  const others = conversations.length - 1;
  return [
    '',
    c.bold('conversation') + (others > 0 ? `, the first of ${plural(others + 1, 'conversation')}` : ''),
    ...lines,
    ...(turns.length > MOST_TURNS_OF_TEXT
      ? [`     ${plural(turns.length - MOST_TURNS_OF_TEXT, 'more turn')}`]
      : []),
  ];
}
