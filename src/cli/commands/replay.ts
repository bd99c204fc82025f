/** `kvferry replay`: a trace on real engines, made smaller so that they can serve it. */

import { routingChoices } from '../../config/routing.ts';
import type { RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { clusterOptions, forMeasuring } from '../../fleet/from-config.ts';
import { lookThrough, planReplay, type ReplayedTrace, replayTrace } from '../../lab/replay/replay.ts';
import { ownChecksPass } from '../../report/checks.ts';
import { traceTurns } from '../../workload/traces/turns.ts';
import type { Asked, CommandSpec } from '../arguments.ts';
import { type CommandContext, EXIT, type ExitCode } from '../deps.ts';
import { formatSeconds, plural } from '../format.ts';
import { textOutput } from '../json-option.ts';
import { printBench } from '../multiturn/output.ts';
import { watchSession } from '../multiturn/watch.ts';
import { prepareOutputs } from '../outputs.ts';
import { createProgress } from '../progress.ts';
import { preparePullPolicy } from '../pull-policy.ts';
import { startCluster } from '../start-cluster.ts';
import { type Given, type NamedTrace, openNamedTrace } from '../trace/open.ts';
import { NEVER_OF_REPLAY, refuseUnused, unusedByReplay } from '../unused.ts';

export const replaySpec: CommandSpec = {
  usage: 'replay [trace]',
  run: replay,
  description:
    'Serve a trace on real engines, each request when the trace says, and compare modes or policies. Lengths are divided so that a hash id is a block; what D generates is what later prompts hold.',
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
    'outputs',
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
    rounds: '1',
  },
  examples: [
    'kvferry replay conversation_trace.jsonl --limit 100 --speed-up 0.2',
    'kvferry replay AzureLLM.csv --limit 200 --trace-scale 1/16 --prefill 2 --decode 2',
    'kvferry replay conversation_trace.jsonl --limit 100 --prefill 2 --decode 2 --routing round-robin,aibrix-pd',
  ],
};

async function replay(config: RunConfig, context: CommandContext, { given }: Asked): Promise<ExitCode> {
  const { deps, signal } = context;
  const begunMs = deps.now();
  if (config.trace === null) throw noTrace();
  refuseUnused(given, unusedByReplay(config));
  const architecture = await deps.backend.architecture(config.model);
  const outputs = await prepareOutputs(config, 'bench', architecture.name, deps);
  const progress = createProgress(deps);
  const maxModelLen = config.maxModelLen ?? architecture.maxModelLen;
  const { trace, passedOver } = await reopenable(config, maxModelLen, context, given);
  const totals = await lookThrough(trace);
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
    const skipped = passedOver();
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
  new ConfigError('no trace is named: wanted kvferry replay FILE, such as a JSONL of Mooncake');

/** The whole context takes memory that a trace of short prompts does not need. */
const roomFor = ({ maxModelLen }: RunConfig, longest: number, most: number): number =>
  maxModelLen ?? Math.min(most, Math.max(longest, LEAST_CONTEXT));
const LEAST_CONTEXT = 256;

/** Bad lines are told of once, however often it is read. Throws ConfigError for what can be read once only. */
async function reopenable(
  config: RunConfig,
  maxModelLen: number,
  { deps }: CommandContext,
  given: Given,
): Promise<{ trace: ReplayedTrace; passedOver: () => string | null }> {
  const open = () =>
    openNamedTrace(config, deps, given, (traceBlockSize) => divisorFor(traceBlockSize, config.blockSize));
  // What was opened to know its scale is what is read first.
  let opened: NamedTrace | null = await open();
  const { source, scale } = opened;
  if ((await deps.plainFileId(source)) === null)
    throw new ConfigError(
      `${source} is no plain file, and a trace is read again for each mode: write it to a file, and give that`,
    );
  let passedOver: string | null = null;
  return {
    passedOver: () => passedOver,
    trace: {
      source,
      scale,
      async open() {
        const { requests, bad } = opened ?? (await open());
        opened = null;
        async function* turns() {
          yield* traceTurns(requests, { scale, maxModelLen, bad });
          passedOver = bad.describe();
        }
        return turns();
      },
    },
  };
}

/** A block of the trace becomes one of the engines'. Throws ConfigError where that cannot be. */
function divisorFor(traceBlockSize: number, blockSize: number): number {
  if (traceBlockSize <= blockSize) return 1;
  if (traceBlockSize % blockSize === 0) return traceBlockSize / blockSize;
  throw new ConfigError(
    `a trace block of ${traceBlockSize} tokens is no whole number of blocks of --block-size ${blockSize}: choose one that divides it, or say --trace-scale`,
  );
}
