/** What `kvferry bench` prints: the workload, each experiment's tables, and verdicts. */

import { NO_PEERS, readsFromPeers } from '../../config/kv-transfer.ts';
import { formatMs, formatSeconds, plural } from '../../measure/format.ts';
import { type Outcome, outcomeOf, TIE } from '../../measure/outcome.ts';
import {
  type BenchReport,
  type Experiment,
  labelIn,
  type Ratio,
} from '../../measure/schemas/bench-report.ts';
import { commandOf } from '../../measure/schemas/report-kinds.ts';
import { benchAuditSentence } from '../../report/audit.ts';
import { roundsServed } from '../../report/bench.ts';
import { TONE_OF, type Tone } from '../../report/document.ts';
import { throttledLabel } from '../../report/throttled.ts';
import { adapterName, isStreamed, keptKvNote, STREAMED, windowSavings } from '../../report/verdict.ts';
import type { Output } from '../deps.ts';
import { goodLegend } from '../output/format.ts';
import { type Printer, printer } from '../output/table.ts';
import {
  lengthTable,
  regretLine,
  wayBytesTable,
  wayMemoryTable,
  waySpeedTable,
  waysLegend,
  waysOf,
  wayVerdicts,
} from './path-tables.ts';
import {
  edgeTable,
  movingLines,
  routedModes,
  routingVerdicts,
  speedTable,
  WORK_LEGEND,
  workTable,
} from './routing-tables.ts';
import { costTable, notPulled, publishedTable, ratio, ratioTable, storeUses, vllmTable } from './tables.ts';

export function printBench(report: BenchReport, out: Output, color: boolean): void {
  const printing = printer(out, color);
  const { print, say, c } = printing;
  const { target } = report;
  print(['']);
  say(
    `kvferry ${report.kvferry} ${commandOf(report)}: ${target.model} ${target.kind === 'endpoint' ? `at ${target.url}` : `on ${adapterName(report)}`}, ${report.machine.cores} x ${report.machine.cpu}`,
    c.bold,
  );
  say(workloadLine(report));
  for (const note of report.plan.notes) say(note, c.yellow);
  const throttled = throttledLabel({ link: target.link, config: report.config });
  if (throttled) say(throttled, c.yellow);
  if (isStreamed(report)) say(STREAMED, c.yellow);
  if (!report.complete) say(`INCOMPLETE: ${report.incomplete_reason}.`, c.red);

  const experiments = Object.values(report.experiments);
  if (experiments.every(({ modes }) => Object.keys(modes).length === 0)) {
    say('No round finished, so nothing was measured.', c.red);
    return;
  }
  const kept = keptKvNote(report) !== null;
  for (const experiment of experiments) printExperiment(experiment, kept, report.config, printing);

  print(['']);
  say(LEGEND, c.dim);
  if (experiments.some((experiment) => waysOf(experiment).length > 0)) say(waysLegend(experiments), c.dim);
  if (target.kind === 'cluster') say(WHAT_DIFFERS, c.dim);
  const recorder = report.recorder_overhead_percent;
  if (recorder !== null)
    say(
      `Recording timings took at most ${recorder.toPrecision(2)}% of the time (an upper bound, measured afterwards).`,
      c.dim,
    );
  const paints = { good: c.green, bad: c.red, plain: undefined };
  for (const { text, tone } of verdicts(report)) say(text, paints[tone]);
}

const LEGEND =
  'TTFT: ms to the first token. TPOT: ms per token after it. Ratios are reference / mode, paired by request: above 1 the mode is faster; an interval that contains 1 means no difference. Blocks held: blocks that D keeps for the next turn, mean and peak; MB·s: megabytes times seconds held.';

const WHAT_DIFFERS =
  'Unlike in a cluster, one machine computes for P, D and the clients, and KV is copied through shared memory instead of RDMA.';

function workloadLine({ workload, plan, modes }: BenchReport): string {
  const { source, scale, num_clients, conversations, requests, max_active_conversations } = workload;
  const how =
    num_clients === 0
      ? "sent at the trace's times"
      : `${plural(num_clients, 'client')}, ${max_active_conversations} active`;
  return (
    `Workload: ${source}${scale === '1' ? '' : ` at scale ${scale}`}, ${plural(conversations, 'conversation')}, ` +
    `${plural(requests, 'request')} per round, ${how}; ` +
    `${roundsServed(plan, modes)} in ${formatSeconds(plan.spent_ms)}${plan.budget_ms === null ? '' : ` of ${formatSeconds(plan.budget_ms)}`}.`
  );
}

/** `kept`: the modes are not compared, because KV was kept from one to the next. */
function printExperiment(
  experiment: Experiment,
  kept: boolean,
  config: BenchReport['config'],
  { print, say, c, style }: Printer,
): void {
  const { title, p_blocks, d_blocks, modes, comparisons, comparison, audit, published } = experiment;
  const pools = p_blocks === null ? '' : ` (blocks: P ${p_blocks}, D ${d_blocks})`;
  print(['']);
  say(`== ${title}${pools}`, c.bold);
  const routed = routedModes(experiment);
  const sayWhatMoved = (): void => {
    for (const sentence of storeUses(modes)) say(sentence);
    for (const sentence of notPulled(modes)) say(sentence, c.yellow);
  };
  for (const mode of Object.values(modes)) {
    if ((mode.routing || mode.path) && mode.errors.length === 0 && !mode.first_use_compilations) continue;
    const rate = `${mode.requests_per_second.toFixed(2)} requests/s`;
    const failed = mode.failed_requests > 0 ? `, ${mode.failed_requests} failed` : '';
    print(['', `${c.bold(mode.label)}: ${formatSeconds(mode.runtime_ms)}, ${rate}${failed}`]);
    for (const { message, count } of mode.errors) say(`${count} x ${message}`, c.red);
    print(vllmTable(mode.table, style));
    for (const { warmup_percent, table } of mode.warmup_tables) {
      print([`without the first ${warmup_percent}% of each round`]);
      print(vllmTable(table, style));
    }
    if (mode.first_use_compilations)
      say(
        `${plural(mode.first_use_compilations, 'pipeline')} compiled during this run, so its times include compiling.`,
        c.red,
      );
  }
  if (waysOf(experiment).length > 0) {
    print(['', c.bold('paths side by side'), ...waySpeedTable(experiment, style)]);
    print(['', ...wayBytesTable(experiment, style)]);
    print(['', ...wayMemoryTable(experiment, style)]);
    print(['', ...lengthTable(experiment, style)]);
    const lost = regretLine(experiment);
    if (lost) say(lost);
    return;
  }
  if (routed.length > 0) {
    print(['', c.bold('policies side by side')]);
    print(speedTable(routed, style));
    const slo = routed.find(({ routing }) => routing.goodput)?.routing.goodput;
    if (slo) say(goodLegend(slo), c.dim);
    print(['', ...workTable(routed, style)]);
    say(WORK_LEGEND, c.dim);
    if (routed.some(({ routing }) => routing.edges.length > 0)) print(['', ...edgeTable(routed, style)]);
    for (const line of movingLines(experiment)) say(line);
    sayWhatMoved();
  }
  if (Object.keys(comparisons).length > 0 && !kept) {
    print(['', c.bold(`against ${labelIn(modes, comparison!.reference)}`)]);
    print(ratioTable(experiment, style));
  }
  if (routed.length === 0 && Object.values(modes).some(({ computed_tokens }) => computed_tokens !== null)) {
    print(['', c.bold('cost of each mode')]);
    print(costTable(modes, style));
    sayWhatMoved();
  }
  const windows = windowSavings(experiment.windows, config);
  if (windows) {
    print(['']);
    say(windows, c.bold);
  }
  if (audit) {
    print(['']);
    say(benchAuditSentence(audit), c.yellow);
  }
  if (published && comparison && !kept) {
    print(['', c.bold(`compared with ${published.source}`)]);
    print(publishedTable(published, comparison, style));
  }
}

/** What the interval of the mean's ratio says, in words. */
function howSure(outcome: Outcome, { low, high }: Ratio, pulls: boolean): string {
  if (low === null || high === null) return 'too few requests for an interval';
  const range = `between ${low.toFixed(2)} and ${high.toFixed(2)}`;
  return {
    ahead: `faster, ${range}`,
    behind: `slower, ${range}${pulls ? ': recomputing was cheaper here' : ''}`,
    tie: `${TIE}, ${range}`,
  }[outcome];
}

function howToPull({ config }: BenchReport, { table }: Experiment['modes'][string]): string {
  if (table.input_num_turns?.max === 1) return 'no conversation has a second turn that could pull';
  if (!readsFromPeers(config)) return NO_PEERS;
  return config.pullPolicy === 'cost-aware'
    ? 'the cost-aware policy predicted that pulling is slower here'
    : 'lower --threshold to pull';
}

function verdicts(report: BenchReport): { text: string; tone: Tone }[] {
  const compared = Object.values(report.experiments).filter(({ comparison }) => comparison);
  const kept = compared.length > 0 ? keptKvNote(report) : null;
  const lines = (kept ? [] : compared).flatMap((experiment): { text: string; tone: Tone }[] => {
    const { title, comparison, modes } = experiment;
    if (waysOf(experiment).length > 0) return wayVerdicts(experiment);
    if (routedModes(experiment).length > 0)
      return routingVerdicts(experiment).map(({ text, outcome }) => ({ text, tone: TONE_OF[outcome] }));
    const { mean, p50 } = comparison!.ttft_ms;
    if (mean.ratio === null) return [];
    const candidate = modes[comparison!.candidate];
    const [name, other] = [comparison!.candidate, comparison!.reference].map((key) => labelIn(modes, key));
    if (candidate?.mode === 'bidirectional' && candidate.pulled_tokens === 0)
      return [
        {
          text: `${title}: nothing was pulled, so the modes did the same work and no difference in time counts; ${howToPull(report, candidate)}.`,
          tone: 'plain',
        },
      ];
    const outcome = outcomeOf({ ratio: mean.ratio, low: mean.low, high: mean.high });
    const pulls = candidate?.mode === 'bidirectional' && comparison!.reference === 'unidirectional';
    const text =
      `${title}: ${name} has a mean TTFT of ${formatMs(mean.candidate)} ms against ${formatMs(mean.reference)} ms of ${other}: ` +
      `${ratio(mean.ratio)}, p50 ${ratio(p50.ratio)}; ${howSure(outcome, mean, pulls)}.`;
    return [{ text, tone: TONE_OF[outcome] }];
  });
  if (kept) lines.push({ text: kept, tone: 'plain' });
  const wrong = compared.find(({ comparison }) => !comparison!.tokens_identical);
  if (wrong) {
    const { mode, round, conversation_id, turn, token_index } = wrong.comparison!.first_difference!;
    const text = `THE MODES DISAGREE: ${labelIn(wrong.modes, mode)}, round ${round}, conversation ${conversation_id}, turn ${turn}, output token ${token_index + 1} differs.`;
    lines.push({ text, tone: 'bad' });
  } else if (compared.length > 0) {
    // A trace contains its tokens, so digests of logits are compared.
    const what =
      report.workload.num_clients === 0 ? 'computed the same logits for' : 'gave the same tokens to';
    lines.push({ text: `All modes and rounds ${what} every request.`, tone: 'good' });
  }
  if (report.integrity && !report.integrity.ok) {
    const { leftover_blocks, problem } = report.integrity;
    lines.push({
      text: `Integrity check failed: ${problem ?? `${leftover_blocks} blocks are still in use`}.`,
      tone: 'bad',
    });
  }
  return lines;
}
