/** `kvferry replay`: serves a trace, scaled down, on real engines. */

import { routingChoices } from '../../config/routing.ts';
import type { RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { clusterOptions, forMeasuring } from '../../fleet/from-config.ts';
import { scaledThreshold } from '../../lab/multiturn/experiments.ts';
import { planReplay, type ReplayedTrace, replayTrace, traceTotals } from '../../lab/replay/replay.ts';
import { formatSeconds, plural } from '../../measure/format.ts';
import { ownChecksPass } from '../../report/checks.ts';
import { divisorForBlocks } from '../../workload/traces/scale.ts';
import { traceTurns } from '../../workload/traces/turns.ts';
import { type CommandContext, EXIT, type ExitCode } from '../deps.ts';
import { printBench } from '../multiturn/output.ts';
import { watchSession } from '../multiturn/watch.ts';
import type { CommandInput, CommandSpec } from '../options/arguments.ts';
import { preparePullPolicy } from '../options/pull-policy.ts';
import {
  NEVER_OF_REPLAY,
  refuseUnused,
  refuseUnusedRouting,
  unusedByReplay,
} from '../options/unused-options.ts';
import { textOutput } from '../output/json-option.ts';
import { prepareOutputs } from '../output/outputs.ts';
import { createProgress } from '../output/progress.ts';
import { startCluster } from '../start-cluster.ts';
import { type Given, type NamedTrace, openNamedTrace } from '../trace/open.ts';

export const replaySpec: CommandSpec = {
  usage: 'replay [trace]',
  run: replay,
  description:
    "Serve a trace on real engines, with the trace's arrival times, and compare modes or policies. Lengths are scaled so that one hash id is one block. D generates the tokens that later prompts of the trace contain.",
  groups: [
    'trace',
    'pacing',
    'slo',
    'measuring',
    'modes',
    'machine',
    'fleet',
    'cluster',
    'store',
    'routing',
    'costs',
    'sampling',
    'pages',
    'junit',
    'asserting',
    'comparing',
    'general',
  ],
  refuses: NEVER_OF_REPLAY,
  argument: 'trace',
  defaults: ({ mode, routing }) => {
    const policies = routingChoices(routing);
    const several = Array.isArray(policies) && policies.length > 1;
    const modes = several ? ['bidirectional'] : ['unidirectional', 'bidirectional'];
    return { model: 'tiny', ...(mode === undefined && { mode: modes }) };
  },
  defaultNotes: {
    model: 'tiny',
    mode: 'unidirectional, bidirectional; with several policies bidirectional',
    traceScale: 'a trace block becomes one of --block-size',
    threshold: '64, divided like the lengths of the trace',
    rounds: '1',
  },
  examples: [
    'kvferry replay conversation_trace.jsonl --limit 100 --speed-up 0.2',
    'kvferry replay AzureLLM.csv --limit 200 --trace-scale 1/16 --prefill 2 --decode 2',
    'kvferry replay conversation_trace.jsonl --limit 100 --prefill 2 --decode 2 --routing round-robin,aibrix-pd',
  ],
};

async function replay(
  settings: RunConfig,
  context: CommandContext,
  { given, explicit }: CommandInput,
): Promise<ExitCode> {
  const { deps, signal } = context;
  const begunMs = deps.now();
  if (settings.trace === null) throw noTrace();
  refuseUnused(given, unusedByReplay(settings));
  await refuseUnusedRouting(given, settings);
  const architecture = await deps.backend.architecture(settings.model);
  const outputs = await prepareOutputs(settings, 'bench', architecture.name, deps);
  const progress = createProgress(deps);
  const maxModelLen = settings.maxModelLen ?? architecture.maxModelLen;
  const { trace, skippedLines } = await reopenable(settings, maxModelLen, context, given);
  const config = explicit.has('threshold')
    ? settings
    : { ...settings, threshold: scaledThreshold(trace.scale.lengthDivisor) };
  const totals = await traceTotals(trace);
  progress.line(
    `${trace.source}: ${plural(totals.requests, 'request')} in ${plural(totals.conversations, 'conversation')}, over ${formatSeconds(totals.lastMs)} at least`,
  );
  const adapter = await deps.backend.useAdapter(config.adapter);
  const options = clusterOptions(
    { ...config, maxModelLen: roomFor(config, totals.longest, maxModelLen) },
    architecture,
    adapter.software,
  );
  const plan = planReplay(config, options, totals);
  const pullPolicy = await preparePullPolicy(config, context);
  const cluster = await startCluster(
    forMeasuring({ ...options, mode: plan.arms[0]!.mode }),
    adapter.name,
    pullPolicy,
    progress,
    context,
  );
  try {
    const watcher = watchSession(progress, [plan], deps.now);
    const report = await replayTrace(
      cluster,
      { config, trace, totals, plan, begunMs, signal },
      deps,
      watcher,
    );
    const skipped = skippedLines();
    if (skipped) report.plan.notes.push(skipped);
    printBench(report, textOutput(config, deps), deps.color);
    const asserted = await outputs.finish(report);
    if (signal.aborted) return EXIT.interrupted;
    return ownChecksPass(report) ? asserted : EXIT.failed;
  } finally {
    progress.end();
    await cluster.close();
  }
}

const noTrace = (): ConfigError =>
  new ConfigError('no trace is given: wanted kvferry replay FILE, such as a JSONL file from Mooncake');

/** Context length to serve with. A trace of short prompts does not need memory for the model's whole context. */
const roomFor = ({ maxModelLen }: RunConfig, longest: number, most: number): number =>
  maxModelLen ?? Math.min(most, Math.max(longest, LEAST_CONTEXT));
const LEAST_CONTEXT = 256;

/** A trace that can be read several times; bad lines are reported once. Throws ConfigError for a source that can be read only once. */
async function reopenable(
  config: RunConfig,
  maxModelLen: number,
  { deps }: CommandContext,
  given: Given,
): Promise<{ trace: ReplayedTrace; skippedLines: () => string | null }> {
  const open = () =>
    openNamedTrace(config, deps, given, (traceBlockSize) => divisorFor(traceBlockSize, config.blockSize));
  // Opened to determine the scale; the first reading uses this one.
  let opened: NamedTrace | null = await open();
  const { source, scale, drawn } = opened;
  if ((await deps.plainFileId(source)) === null)
    throw new ConfigError(
      `${source} is not a regular file, and a trace is read again for each mode: write it to a file, and give that`,
    );
  let skippedLines: string | null = null;
  return {
    skippedLines: () => skippedLines,
    trace: {
      source,
      scale,
      drawn,
      async open() {
        const { requests, bad } = opened ?? (await open());
        opened = null;
        async function* turns() {
          yield* traceTurns(requests, { scale, maxModelLen, bad });
          skippedLines = bad.describe();
        }
        return turns();
      },
    },
  };
}

/** Throws ConfigError if a trace block cannot become one engine block. */
function divisorFor(traceBlockSize: number, blockSize: number): number {
  const divisor = divisorForBlocks(traceBlockSize, blockSize);
  if (divisor !== null) return divisor;
  throw new ConfigError(
    `a trace block of ${traceBlockSize} tokens is not a multiple of --block-size ${blockSize}: choose a block size that divides it, or give --trace-scale`,
  );
}
