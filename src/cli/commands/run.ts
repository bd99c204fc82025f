/** `kvferry run`: serves conversations in each mode, prints a table per turn, and shows what pulling saved. */
import { shareOf } from '../../config/bench-schema.ts';
import type { RunConfig } from '../../config/run.ts';
import { ConfigError, InternalError } from '../../errors.ts';
import { clusterOptions, forMeasuring } from '../../fleet/from-config.ts';
import { hasWindows } from '../../fleet/options.ts';
import type { Cluster } from '../../fleet/types.ts';
import { Auditor } from '../../lab/audit.ts';
import { driveMode } from '../../lab/drive.ts';
import { finalIntegrity } from '../../lab/integrity.ts';
import { profileKernels } from '../../lab/profile.ts';
import { makeReport } from '../../lab/run-report.ts';
import { warmUp } from '../../lab/warm-up.ts';
import { compareWindows, lacksForAllKv } from '../../lab/windows.ts';
import { formatSeconds, listed, plural } from '../../measure/format.ts';
import type { Report, RunReport } from '../../measure/schemas/report.ts';
import type { WindowsReport } from '../../measure/schemas/windows-report.ts';
import { TimelineKeeper } from '../../measure/spans/turn-timeline.ts';
import { LogitKeeper } from '../../measure/summaries/comparison.ts';
import { withoutAudited } from '../../measure/summaries/summary.ts';
import { sumOf } from '../../sum.ts';
import type { Conversation } from '../../workload/types.ts';
import { type CliDeps, type CommandContext, EXIT, type ExitCode } from '../deps.ts';
import { warningOfLoss } from '../interrupted.ts';
import type { CommandInput, CommandSpec } from '../options/arguments.ts';
import { preparePullPolicy } from '../options/pull-policy.ts';
import { wantOneRouting } from '../options/settings.ts';
import { SHIPPED_NOTES, shippedDefaults } from '../options/shipped-conversation.ts';
import { refuseUnused, refuseUnusedRouting, unusedByRun } from '../options/unused-options.ts';
import { WIDTH, wrap } from '../output/format.ts';
import { textOutput } from '../output/json-option.ts';
import { prepareOutputs } from '../output/outputs.ts';
import { NO_TIMESTAMPS, profileLines } from '../output/profile.ts';
import { createProgress, type Progress } from '../output/progress.ts';
import { plainStyle } from '../output/table.ts';
import { followSpans, type Tracing } from '../run/tracing.ts';
import { checkFits, chooseConversations, longestAnswer, mostOutputTokens } from '../run/workload.ts';
import { startCluster } from '../start-cluster.ts';

export const runSpec: CommandSpec = {
  usage: 'run',
  run: (config, context, input) =>
    warningOfLoss(
      run(config, context, input),
      context,
      () => 'No report: it is written after all turns have been served.',
    ),
  description:
    "Serve a multi-turn conversation in three modes (monolithic, unidirectional, bidirectional), and show what pulling D's KV back saves over recomputing it.",
  groups: [
    'modes',
    'workload',
    'sampling',
    'machine',
    'fleet',
    'cluster',
    'store',
    'routing',
    'explaining',
    'pages',
    'junit',
    'asserting',
    'comparing',
    'traceFile',
    'tracing',
    'costs',
    'audit',
    'recording',
    'general',
  ],
  defaults: shippedDefaults,
  defaultNotes: { threshold: '64, or 32 with the shipped conversation', ...SHIPPED_NOTES },
  examples: [
    'kvferry run',
    'kvferry run --model tiny --turns 6 --output-tokens 128 --no-prefix-caching',
    'kvferry run --mode unidirectional,bidirectional --link 10gbe --json out.json',
    'kvferry run --link 10e6,40ms --pull-policy cost-aware --audit 20%',
    'kvferry run --gantt --trace-out trace.json --profile',
    "kvferry run --html run.html --assert 'comparison.tokens_identical == true'",
  ],
};

/** Limit in bytes for logits kept to compare modes. */
const MOST_KEPT_LOGITS = 32 * 2 ** 20;

async function run(
  config: RunConfig,
  { deps, signal }: CommandContext,
  { given }: CommandInput,
): Promise<ExitCode> {
  refuseUnused(given, unusedByRun(config));
  await refuseUnusedRouting(given, config);
  wantOneRouting(config);
  const { backend } = deps;
  const architecture = await backend.architecture(config.model);
  const adapter = await backend.useAdapter(config.adapter);
  const measured = forMeasuring(clusterOptions(config, architecture, adapter.software));
  // Before generating conversations: lengths beyond any context may not fit into memory either.
  checkFits(config, measured);
  const conversations = await chooseConversations(config, architecture, deps);
  const keptBytes = 4 * architecture.vocabSize * mostOutputTokens(config, conversations);
  const options = {
    ...measured,
    keepLogits: config.mode.length > 1 && keptBytes <= MOST_KEPT_LOGITS,
  };

  checkTracing(config, conversations);
  const outputs = await prepareOutputs(config, 'run', architecture.name, deps);

  const pullPolicy = await preparePullPolicy(config, { deps, signal });
  const auditor = new Auditor(shareOf(config.audit));

  const progress = createProgress(deps);
  const cluster = await startCluster(options, adapter.name, pullPolicy, progress, { deps, signal });
  let tracing: Tracing | null = null;
  let recording: Recording | null = null;
  try {
    cluster.onWaiting((_, reason) => progress.line(reason));
    if (config.mode.length > 1) {
      let turns = 0;
      progress.begin('warming up', null);
      const onTurn = () => progress.update(++turns, plural(turns, 'turn'));
      await warmUp(cluster, { signal, now: deps.now, onTurn });
      progress.end();
    }
    recording = await record(cluster, config, deps, progress);
    const served = recording?.cluster ?? cluster;
    tracing = await followSpans(cluster, config, deps);
    const timelines = new TimelineKeeper();
    cluster.onSpan((span) => timelines.add(span));
    const keeper = options.keepLogits ? new LogitKeeper() : null;
    const serve = (mode: RunConfig['mode'][number], recorders: Recorders): Promise<RunReport> =>
      runMode(served, mode, conversations, config, { deps, signal }, recorders, progress);
    const runs: RunReport[] = [];
    for (const mode of config.mode) {
      tracing?.mode(mode);
      runs.push(await serve(mode, { keeper, timelines, audits: mode === 'bidirectional' ? auditor : null }));
    }
    // A disk may be full now; the report does not depend on these files.
    const unwritten: unknown[] = [];
    const keep = (error: unknown): void => void unwritten.push(error);
    await recording?.write().catch(keep);
    const gantt = (await tracing?.end().catch(keep)) ?? [];
    const last = config.mode.at(-1)!;
    if (config.profile) progress.line(`profiling ${last}`);
    // A second run with every kernel timed; its other measurements are discarded.
    const again = { keeper: null, timelines: new TimelineKeeper(), audits: null };
    const profile = config.profile ? await profileKernels(served, last, () => serve(last, again)) : null;
    const windows = await windowsOf(
      served,
      runs.at(-1)!,
      longestAnswer(config, conversations),
      progress,
      () => serve(last, again),
    );
    const integrity = await finalIntegrity(cluster);
    const results = { runs: withoutAudited(runs), keeper, integrity, timeline: timelines.timeline };
    const made = makeReport(deps, config, cluster, results);
    const report = { ...made, ...(profile ? { profile } : {}), ...(windows ? { windows } : {}) };
    await print(report, conversations, config, gantt, deps);
    const asserted = await outputs.finish(report);
    if (unwritten.length > 0) throw unwritten[0];
    if (!integrity.ok)
      throw new InternalError(integrity.problem ?? `${integrity.leftover_blocks} blocks are still in use`);
    // Needed only at the end, so loaded late.
    const { ownChecksPass } = await import('../../report/checks.ts');
    return ownChecksPass(report) ? asserted : EXIT.failed;
  } finally {
    progress.end();
    // After a failure, finish the trace and recording files with what happened until then.
    await tracing?.end().catch(() => {});
    recording?.cut();
    await cluster.close();
    // After closing: a hanging engine would not answer before.
    await recording?.write().catch(() => {});
  }
}

/** What the windows saved, against a run `again` with all KV kept; null: there are none, or no room to keep all. */
async function windowsOf(
  cluster: Cluster,
  windowed: RunReport,
  longestAnswer: number,
  progress: Progress,
  again: () => Promise<RunReport>,
): Promise<WindowsReport | null> {
  if (!hasWindows(cluster.settings)) return null;
  const lacks = lacksForAllKv(cluster.settings, windowed.turns, longestAnswer);
  if (lacks) {
    progress.line(`no comparison run with all KV kept: it needs ${lacks}`);
    return null;
  }
  return compareWindows(cluster, windowed, () => {
    progress.line('running again with all KV kept, for comparison');
    return again();
  });
}

/** The report's tables, then the --gantt and --profile ones. */
async function print(
  report: Report,
  conversations: readonly Conversation[],
  config: RunConfig,
  gantt: readonly string[],
  deps: CliDeps,
): Promise<void> {
  // Needed only at the end, so loaded late.
  const { printReport } = await import('../run/run-output.ts');
  const tables = textOutput(config, deps);
  printReport(report, conversations, tables, deps.color);
  if (gantt.length > 0) tables.write(`\n${gantt.join('\n')}\n`);
  if (!config.profile) return;
  const lines = report.profile ? profileLines(report.profile, plainStyle) : wrap(NO_TIMESTAMPS, WIDTH);
  tables.write(`\n${lines.join('\n')}\n`);
}

/** Collectors for a mode, in addition to its report. */
interface Recorders {
  keeper: LogitKeeper | null;
  timelines: TimelineKeeper;
  /** Serves a sample of turns both ways; null: no audit. */
  audits: Auditor | null;
}

async function runMode(
  cluster: Cluster,
  mode: RunConfig['mode'][number],
  conversations: readonly Conversation[],
  config: RunConfig,
  { deps, signal }: CommandContext,
  { keeper, timelines, audits }: Recorders,
  progress: Progress,
): Promise<RunReport> {
  const { maxTokens, temperature, topK, topP, seed, concurrency } = config;
  const turns = sumOf(conversations, (conversation) => conversation.turns.length);
  let done = 0;
  progress.begin(mode, turns);
  const report = await driveMode(cluster, mode, conversations, {
    sampling: { maxTokens, temperature, topK, topP, seed },
    concurrency,
    signal,
    now: deps.now,
    keeper,
    auditor: audits,
    onToken: (_, turn, tokens) => progress.update(done, `turn ${turn}, token ${tokens}`),
    onTurn(turn) {
      timelines.turnEnded(mode, turn);
      progress.update(++done, `${done} of ${plural(turns, 'turn')}`);
    },
  });
  progress.end();
  progress.line(`${mode}: ${plural(turns, 'turn')} in ${formatSeconds(report.summary.wall_ms)}`);
  return report;
}

interface Recording {
  /** The recorded cluster, to drive instead of the original. */
  cluster: Cluster;
  /** Stops recording events. */
  cut(): void;
  /** Ends the recording and writes the file. Idempotent. */
  write(): Promise<void>;
}

/** Starts the recording; null if --record is not given. */
async function record(
  cluster: Cluster,
  config: RunConfig,
  { version, writeTextFile }: CommandContext['deps'],
  progress: Progress,
): Promise<Recording | null> {
  if (config.record === null) return null;
  const file = config.record;
  const { startRecording } = await import('../../recording/recording.ts');
  const { recordingText } = await import('../../recording/recording-text.ts');
  const recorded = startRecording(cluster, config);
  const finish = async (): Promise<void> => {
    const events = await recorded.end();
    const title = `${config.model}, ${listed(config.mode)}`;
    const text = recordingText(events, title, `kvferry ${version}`);
    await writeTextFile(file, `${text}\n`);
    progress.line(`recorded ${plural(events.length, 'event')} to ${file}`);
  };
  let written: Promise<void> | null = null;
  return {
    cluster: recorded.cluster,
    cut: () => recorded.cut(),
    write() {
      written ??= finish();
      return written;
    },
  };
}

function checkTracing({ gantt }: RunConfig, conversations: readonly Conversation[]): void {
  const turns = Math.max(...conversations.map(({ turns }) => turns.length));
  if (typeof gantt === 'number' && gantt > turns)
    throw new ConfigError(
      `--gantt is ${gantt}: the conversation has ${plural(turns, 'turn')}; give one of them`,
    );
}
