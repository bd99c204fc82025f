/** `kvferry simulate`: a fleet serves a workload on a virtual clock; policies are compared. */
import type { RunConfig } from '../../config/run.ts';
import { forMeasuring } from '../../fleet/from-config.ts';
import { formatSeconds, plural } from '../../measure/format.ts';
import {
  type SimulatedArm,
  type SimulationReport,
  simulationReportSchema,
} from '../../measure/schemas/simulation-report.ts';
import { validationReportSchema } from '../../measure/schemas/validation-report.ts';
import type { MeasuredCosts } from '../../simulate/costs/fit-measured.ts';
import { linearCosts } from '../../simulate/costs/linear.ts';
import { CostMeter, MEASURED_ROUNDS } from '../../simulate/costs/measure.ts';
import { ASSUMED_START_MS } from '../../simulate/costs/published.ts';
import { storeTimes } from '../../simulate/costs/tiers.ts';
import { compareWithReport, modesIn } from '../../simulate/results/against.ts';
import { summarise } from '../../simulate/results/summary.ts';
import type { SimulationWorld } from '../../simulate/run.ts';
import { sumOf } from '../../sum.ts';
import type { CommandContext, ExitCode } from '../deps.ts';
import { warningOfLoss } from '../interrupted.ts';
import { benchDefaults, checkBench, scaledLike } from '../multiturn/settings.ts';
import type { CommandInput, CommandSpec } from '../options/arguments.ts';
import { refuseUnused, refuseUnusedRouting, unusedBySimulate } from '../options/unused-options.ts';
import { type Judge, prepareAssertions } from '../output/assertions.ts';
import { textOutput, writeJson } from '../output/json-option.ts';
import { checkFiles } from '../output/outputs.ts';
import { writePages } from '../output/pages.ts';
import { createProgress } from '../output/progress.ts';
import { printAgainst, readMeasured } from '../simulate/against.ts';
import { simulationDocument } from '../simulate/document.ts';
import { MODELLED_NOTES } from '../simulate/help-notes.ts';
import { runJobs } from '../simulate/jobs.ts';
import { movingOf, printSimulation } from '../simulate/output.ts';
import { checkSimulation, type PlannedSimulation } from '../simulate/plan.ts';
import { prepareSimulation } from '../simulate/prepared.ts';
import { followTurns } from '../simulate/traced.ts';
import {
  printMeasured,
  printValidation,
  realRuns,
  validateArms,
  validationChecks,
  validationReport,
} from '../simulate/validate.ts';
import { worldOf } from '../simulate/world.ts';

export const simulateSpec: CommandSpec = {
  usage: 'simulate [file]',
  run: simulate,
  description:
    'Simulate a fleet that serves a workload. Scheduler, connectors, router and policies are the real code, on a virtual clock. Only the durations of steps and copies come from a cost model, which each report names.',
  groups: [
    'modelling',
    'simulation',
    'trace',
    'pacing',
    'measuring',
    'bench',
    'slo',
    'faults',
    'checking',
    'modes',
    'fleet',
    'scaling',
    'cluster',
    'store',
    'costs',
    'routing',
    'machine',
    'traceFile',
    'pages',
    'junit',
    'asserting',
    'general',
  ],
  refuses: ['budget', 'warmupPercentages', 'explainScaling', 'paths'],
  argument: 'inputFile',
  defaults(given) {
    const { budget: _budget, ...rest } = benchDefaults({ ...given, paths: undefined });
    const { mode, model } = rest;
    if (given.trace !== undefined)
      return { mode, model, experiments: ['prefix-caching'], ...scaledLike(given.traceScale) };
    return given.prefixCaching === undefined ? { ...rest, experiments: ['prefix-caching'] } : rest;
  },
  defaultNotes: {
    model: 'tiny',
    mode: 'unidirectional, bidirectional, decode-local',
    experiments: 'prefix-caching',
    pBlocks: 'room for all active conversations; 16384 with --arrival-rate or --trace',
    dBlocks: 'room for all active conversations; 16384 with --arrival-rate or --trace',
    threshold: '64, divided by --scale or --trace-scale',
    rounds: '5; only with --validate',
    costProfile: 'derived from --costs',
    autoscale: 'the number of engines stays as it is',
    ...MODELLED_NOTES,
  },
  examples: [
    'kvferry simulate --prefill 2 --decode 2 --arrival-rate 5 --slo-ttft 500ms',
    'kvferry simulate --routing round-robin,least-request,prefix-cache --decode 4',
    'kvferry simulate generate_multi_turn.json --costs mine.json --html page.html',
    'kvferry simulate --trace conversation_trace.jsonl --prefill 4 --decode 4 --block-size 128',
    'kvferry simulate --autoscale k8s-hpa --max-decode 8 --arrival-rate 20 --arrivals 5000',
    'kvferry simulate --faults 40 --start-up 2s --prefill 2 --decode 2 --arrival-rate 5',
    'kvferry simulate --store 64GiB --kv-bytes-per-token 131072 --arrival-rate 5 --decode 4',
    'kvferry simulate --store 4GiB --store-dir kv --store-dir-size 64GiB --arrival-rate 5',
    'kvferry simulate --routing llm-d --prefill 2 --decode 2 --trace-out trace.json',
    "kvferry simulate --routing round-robin,llm-d --assert 'arms.llm-d.failed_requests == 0'",
    'kvferry simulate --validate --prefill 2 --decode 2 --num-clients 2',
  ],
};

async function simulate(
  config: RunConfig,
  context: CommandContext,
  { given }: CommandInput,
): Promise<ExitCode> {
  const { deps, signal } = context;
  checkBench(config);
  checkSimulation(config);
  refuseUnused(given, unusedBySimulate(config));
  await refuseUnusedRouting(given, config);
  await checkFiles(config, deps);
  const schema = config.validate ? validationReportSchema : simulationReportSchema;
  const judge = prepareAssertions('simulate', schema, config, deps);
  const measured = config.against === null ? null : await readMeasured(config.against, deps);
  const adapter = config.validate ? await deps.backend.useAdapter(config.adapter) : null;
  const prepared = await prepareSimulation(config, deps, given, adapter);
  const { planned, workload } = prepared;
  if (adapter) return againstReal(config, planned, adapter.name, judge, context);
  const compared = measured && modesIn(measured, config.against!, planned);
  const clients = {
    real: measured?.workload.num_clients ?? 0,
    simulated: planned.closedLoop ? config.numClients : 0,
  };

  const progress = createProgress(deps);
  const begunMs = deps.now();
  const simulating = runJobs(config, prepared, signal, deps, progress);
  const outcomes = await warningOfLoss(
    simulating,
    context,
    () =>
      'No report: it needs all simulations to finish. Nothing is written. Fewer --arrivals, a --limit for the trace, or fewer --mode and --routing take less time.',
  );
  const world = prepared.world(signal, () => {});
  const arms = planned.arms.map((arm, i) => summarise(arm, outcomes[i]!, world.slo));
  const simulatedMs = deps.now() - begunMs;
  const { costs } = planned;
  const report: SimulationReport = {
    kvferry: deps.version,
    kind: 'simulate',
    schema_version: 1,
    simulated: true,
    costs: { name: costs.name, source: costs.source, about: costs.about },
    starts: { ms: costs.startMs ?? ASSUMED_START_MS, assumed: costs.startMs === null },
    store_times: planned.options.store ? storeTimes(planned.options.store, costs) : null,
    ...movingOf(config),
    model: config.model,
    fleet: planned.fleet,
    block_bytes: planned.blockBytes,
    workload: {
      source: workload.source,
      scale: workload.scale,
      conversations: workload.conversations,
      turns: workload.turns,
      asked: planned.asked,
      closed_loop: planned.closedLoop,
      faults: config.faults,
    },
    seed: config.seed,
    arms,
    ...(compared && {
      against: compareWithReport(arms, planned.arms, compared, config.against!, clients),
    }),
  };
  printSimulation(report, textOutput(config, deps), deps.color);
  if (report.against) printAgainst(report.against, textOutput(config, deps), deps.color);
  printSpeed(arms, simulatedMs, deps);
  await writeJson(report, config, deps);
  // Results are printed and written before this longer step, so that they are kept if it fails.
  const timelines = await followTurns(config, prepared, context, progress);
  await writePages(simulationDocument(report, timelines), config, deps);
  return judge(
    report,
    arms.map(({ label, requests }) => ({
      name: `${label} serves requests`,
      passed: requests > 0,
      message: plural(requests, 'request'),
    })),
  );
}

async function againstReal(
  config: RunConfig,
  planned: PlannedSimulation,
  adapter: string,
  judge: Judge,
  context: CommandContext,
): Promise<ExitCode> {
  const { deps, signal } = context;
  const out = textOutput(config, deps);
  const progress = createProgress(deps);
  const loadBefore = deps.loadAverage();
  progress.line(`starting ${planned.fleet} with ${config.model} on ${adapter}`);
  const cluster = await deps.backend.startCluster(forMeasuring(planned.options));
  try {
    const meter = new CostMeter(cluster, { seed: config.seed, signal });
    // The first round is warm-up.
    await meter.round();
    let measured: MeasuredCosts | null = null;
    const world = (): SimulationWorld => {
      measured ??= meter.costs();
      return { ...worldOf(config, planned, signal), costs: linearCosts(measured.file), onProgress() {} };
    };
    const real = realRuns(planned.arms, config);
    // Measured between the compared turns, with the machine in the same state.
    const between = async () => {
      for (let round = 0; round < Math.ceil(MEASURED_ROUNDS / real); round++) await meter.round();
    };
    const validation = await validateArms(cluster, planned.arms, world, between, config, context);
    const costs = meter.costs();
    printMeasured(costs, out, deps.color);
    printValidation(validation, out, deps.color);
    const about = { fleet: planned.fleet, loadBefore };
    const report = validationReport(validation, costs, cluster.info, about, config, deps);
    await writeJson(report, config, deps);
    return await judge(report, validationChecks(validation));
  } finally {
    progress.end();
    await cluster.close();
  }
}

/** Prints the simulation speed to stderr, because it depends on this machine and is in no report. */
function printSpeed(arms: readonly SimulatedArm[], ms: number, { stderr }: CommandContext['deps']): void {
  const requests = sumOf(arms, (arm) => arm.requests);
  const simulatedMs = sumOf(arms, (arm) => arm.simulated_ms);
  const times = ms > 0 ? Math.round(simulatedMs / ms) : 0;
  stderr.write(
    `${plural(requests, 'request')} simulated in ${formatSeconds(ms)}: ${Math.round((1000 * requests) / Math.max(ms, 1))} per second, ${times} times real time\n`,
  );
}
