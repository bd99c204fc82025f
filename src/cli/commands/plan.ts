/** `kvferry plan`: the fewest engines that keep an SLO under a load, or the best load of a number of engines, by simulation. */
import { scaleDivisor } from '../../config/bench-schema.ts';
import type { RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { routingChoice } from '../../fleet/from-config.ts';
import { scaledThreshold } from '../../lab/multiturn/experiments.ts';
import { formatSeconds, plural } from '../../measure/format.ts';
import { type PlanReport, planReportSchema } from '../../measure/schemas/plan-report.ts';
import { fleetFile } from '../../simulate/plan/candidate.ts';
import { fewestEngines } from '../../simulate/plan/fewest.ts';
import { bestGoodput } from '../../simulate/plan/goodput.ts';
import { type Round, samplesOf } from '../../simulate/plan/halving.ts';
import type { Search, Space } from '../../simulate/plan/space.ts';
import type { CommandContext, ExitCode } from '../deps.ts';
import { warningOfLoss } from '../interrupted.ts';
import type { CommandInput, CommandSpec } from '../options/arguments.ts';
import { NEVER_OF_PLAN, refuseUnused, refuseUnusedRouting, unusedByPlan } from '../options/unused-options.ts';
import { prepareAssertions } from '../output/assertions.ts';
import { textOutput, writeJson } from '../output/json-option.ts';
import { checkFiles } from '../output/outputs.ts';
import { writePages } from '../output/pages.ts';
import { createProgress } from '../output/progress.ts';
import { commandsFor } from '../plan/commands.ts';
import { planDocument } from '../plan/document.ts';
import { printPlan } from '../plan/output.ts';
import { engineOf, type Found, goodputReport, planHead, roundsReport, rowOf } from '../plan/report.ts';
import { longestOf, preparePlan, withTrials } from '../plan/trials.ts';
import type { PlanWorkload } from '../plan/workload.ts';
import { MODELLED_NOTES } from '../simulate/help-notes.ts';
import { kvOf } from '../simulate/plan.ts';

/** Default size of an engine's pool in tokens of every KV cache group: 16384 blocks of 16. */
const POOL_TOKENS = 262_144;

const THRESHOLDS = [64, 1024];
const thresholdsAt = (scale: unknown): number[] => {
  const divisor = (typeof scale === 'string' && scaleDivisor(scale)) || 1;
  return THRESHOLDS.map((tokens) => scaledThreshold(divisor, tokens));
};

export const planSpec: CommandSpec = {
  usage: 'plan [file]',
  run: plan,
  description:
    'Find by simulation how many P and D a load needs, and with which placement, routing and pull settings; or the highest load that a given number of engines sustains. Scheduler, connectors and router are the real code, on a virtual clock. Only the durations of steps and copies come from a cost model.',
  groups: [
    'planning',
    'slo',
    'modelling',
    'trace',
    'pacing',
    'bench',
    'modes',
    'cluster',
    'store',
    'routing',
    'machine',
    'pages',
    'junit',
    'asserting',
    'general',
  ],
  refuses: NEVER_OF_PLAN,
  argument: 'inputFile',
  lists: ['threshold', 'store'],
  defaults(given) {
    const named = given.inputFile !== undefined || given.preset !== undefined || given.trace !== undefined;
    return {
      ...(named ? {} : { preset: 'pr32553' }),
      model: 'tiny',
      experiments: ['prefix-caching'],
      mode: ['bidirectional', 'unidirectional'],
      routing: ['round-robin', 'least-request', 'prefix-cache', 'llm-d', 'dynamo'],
      threshold: thresholdsAt(given.trace === undefined ? given.scale : given.traceScale).join(),
      blockSize: 128,
    };
  },
  defaultNotes: {
    model: 'tiny',
    mode: 'bidirectional, unidirectional',
    routing: 'round-robin, least-request, prefix-cache, llm-d, dynamo',
    threshold: '64, 1024, divided by --scale or --trace-scale',
    blockSize: '128, which simulates faster',
    jobs: 'the number of processors',
    pBlocks: 'room for 262144 tokens',
    dBlocks: 'room for 262144 tokens',
    store: 'none',
    inputFile: "the preset's workload",
    ...MODELLED_NOTES,
  },
  examples: [
    'kvferry plan --slo-ttft 500ms --slo-tpot 50ms --rate 5 --attainment 90%',
    'kvferry plan --trace conversation_trace.jsonl --slo-ttft 2s --slo-tpot 50ms',
    'kvferry plan --engines 8 --slo-ttft 500ms --routing llm-d,dynamo --html plan.html',
    'kvferry plan --trace conversation_trace.jsonl --slo-ttft 2s --store none,64GiB,256GiB',
    'kvferry plan --store none,4GiB --store-dir kv --store-dir-size 64GiB --slo-ttft 2s --rate 5',
    'kvferry plan w.json --costs ./mine.json --slo-ttft 1s --rate 4 --fleet-out fleet.json',
  ],
};

async function plan(
  config: RunConfig,
  context: CommandContext,
  { lists, given }: CommandInput,
): Promise<ExitCode> {
  const { deps, signal } = context;
  checkPlan(config);
  const stored = storesOf(config, lists).some((bytes) => bytes !== null);
  refuseUnused(given, unusedByPlan(config, stored));
  await refuseUnusedRouting(given, config);
  await checkFiles(config, deps);
  const judge = prepareAssertions('plan', planReportSchema, config, deps);
  const { groups } = kvOf(config, await deps.backend.architecture(config.model));
  const sized = asSimulated(config, storesOf(config, lists), groups.length);
  const prepared = await preparePlan(sized, deps, given);
  const { costs, workload } = prepared;
  const space = spaceOf(config, lists);

  const progress = createProgress(deps);
  const begunMs = deps.now();
  const rounds: Round[] = [];
  let begun = (): number => 0;
  progress.begin('planning', null);
  const world = { signal, deps, progress };
  const searching = withTrials(sized, prepared, world, async (trials) => {
    begun = () => trials.begun;
    const search: Search = {
      ...{ trials, space },
      samples: samplesOf(longestOf(workload)),
      mostRequests: workload.load.requests,
      onRound: (round) => void rounds.push(round),
    };
    return { search, result: await found(sized, config, search, workload) };
  });
  const { search, result } = await warningOfLoss(
    searching.finally(() => progress.end()),
    context,
    () =>
      `No plan: ${plural(begun(), 'simulation')} had begun, and the choice needs all of them to finish. Nothing is written. A shorter --sample takes less time, and so do fewer --engines, --routing and --threshold.`,
  );
  const { trials } = search;
  const report: PlanReport = {
    ...planHead(sized, costs, workload, search, deps.version, result.chosen ?? result.closest),
    ...result,
    rounds: roundsReport(rounds),
    ...{ simulations: trials.count, simulated_requests: trials.requests },
  };
  deps.stderr.write(
    `${plural(trials.requests, 'request')} simulated in ${formatSeconds(deps.now() - begunMs)}\n`,
  );
  printPlan(report, textOutput(config, deps), deps.color);
  await writeJson(report, config, deps);
  await writePages(planDocument(report), config, deps);
  if (config.fleetOut !== null && report.fleet)
    await deps.writeTextFile(config.fleetOut, `${JSON.stringify(report.fleet, null, 2)}\n`);
  const { chosen } = report;
  const message = chosen ? `${chosen.prefill} P and ${chosen.decode} D` : 'no fleet that was tried does';
  return judge(report, [{ name: 'a fleet meets the SLO', passed: chosen !== null, message }]);
}

/** Throws ConfigError for settings that contradict each other or do not apply to a plan. */
function checkPlan(config: RunConfig): void {
  if (config.sloTtft === null && config.sloTpot === null)
    throw new ConfigError(
      'no SLO is given: wanted --slo-ttft TIME, --slo-tpot TIME or both, such as --slo-ttft 500ms',
    );
  if (config.rate !== null && config.engines !== null)
    throw new ConfigError(
      `--rate is ${config.rate} and --engines is ${config.engines}: give --rate for the fewest engines, or --engines for the highest rate`,
    );
  if (config.rate === null && config.engines === null && config.trace === null)
    throw new ConfigError(
      'neither --rate nor --engines is given: wanted --rate R for the fewest engines, or --engines N for the highest rate',
    );
  if (config.trace !== null && (config.inputFile !== null || config.preset !== null))
    throw new ConfigError(
      '--trace and another workload are both given: a plan takes one; leave one of them out',
    );
  if (config.inputFile !== null && config.preset !== null)
    throw new ConfigError(
      'a file and --preset are both given: a plan takes one workload; leave one of them out',
    );
  if (config.engines !== null && config.engines > config.maxEngines)
    throw new ConfigError(
      `--engines is ${config.engines} and --max-engines is ${config.maxEngines}: raise the latter`,
    );
  if (config.budget !== null)
    throw new ConfigError('--budget has no effect in a plan: use --sample to set the simulation length');
  if (config.experiments?.some((name) => name !== 'prefix-caching'))
    throw new ConfigError(
      "--experiments has no effect in a plan: set P's cache with --no-prefix-caching and --p-blocks; leave it out",
    );
}

/** Default blocks of a pool: each group of the KV cache keeps its own blocks of the same tokens. */
const poolBlocks = ({ blockSize }: RunConfig, groups: number): number =>
  groups * Math.ceil(POOL_TOKENS / blockSize);

/** The configuration to simulate. Pools are sized in tokens, because the default block size is larger here. */
const asSimulated = (config: RunConfig, stores: Space['stores'], groups: number): RunConfig => ({
  ...config,
  // A trace is not random, so a config file's seeds, meant for other commands, do not apply.
  seeds: config.trace === null ? config.seeds : 1,
  // If any candidate has a store, all use the connectors of a fleet with a store.
  store: stores.find((bytes) => bytes !== null) ?? null,
  pBlocks: config.pBlocks ?? poolBlocks(config, groups),
  dBlocks: config.dBlocks ?? poolBlocks(config, groups),
});

/** Store sizes to try, in bytes; null: no store. */
const storesOf = ({ store: only }: RunConfig, { store = [only] }: CommandInput['lists']): Space['stores'] => [
  ...new Set(store.map((bytes) => (bytes === 'none' ? null : (bytes as number | null)))),
];

const spaceOf = (config: RunConfig, lists: CommandInput['lists']): Space => ({
  routings: config.routing.map((name) => routingChoice(config, name)),
  modes: config.mode,
  thresholds: [...new Set((lists.threshold as readonly number[] | undefined) ?? [config.threshold])],
  stores: storesOf(config, lists),
  placements: config.placement,
  maxEngines: config.maxEngines,
});

async function found(
  config: RunConfig,
  { pBlocks, dBlocks }: RunConfig,
  search: Search,
  workload: PlanWorkload,
): Promise<Found> {
  const result = await searched(config, search, workload);
  const { chosen } = result;
  return {
    ...result,
    fleet: chosen && fleetFile(chosen),
    commands:
      chosen === null
        ? []
        : commandsFor(chosen, config, {
            workloadOptions: workload.options(chosen),
            onEngines: workload.onEngines(chosen),
            longest: workload.longest,
            traceBlockSize: workload.traceBlockSize,
            engine: engineOf(config),
            pools: { pBlocks, dBlocks },
            file: config.fleetOut,
          }),
  };
}

async function searched(
  { rate, engines }: RunConfig,
  search: Search,
  { load }: PlanWorkload,
): Promise<Omit<Found, 'fleet' | 'commands'>> {
  if (engines === null) {
    const perSecond = rate ?? load.ownRate!;
    const { chosen, closest, idle, rivals, oneFewer, front } = await fewestEngines(search, perSecond);
    return {
      goal: { kind: 'fewest', requests_per_second: perSecond },
      chosen: chosen && rowOf(chosen),
      goodput: null,
      closest: closest && rowOf(closest),
      idle: idle && rowOf(idle),
      not_told_apart: rivals.map(rowOf),
      one_fewer: oneFewer && rowOf(oneFewer),
      front: front.map(rowOf),
    };
  }
  const { chosen, closest, idle, rivals, front } = await bestGoodput(
    search,
    engines,
    load.ownRate ?? engines,
  );
  return {
    goal: { kind: 'goodput', engines },
    chosen: chosen && rowOf(chosen.best),
    goodput: chosen && goodputReport(chosen),
    closest: closest && rowOf(closest),
    idle: idle && rowOf(idle),
    not_told_apart: rivals.map(rowOf),
    one_fewer: null,
    front: front.map(({ best }) => rowOf(best)),
  };
}
