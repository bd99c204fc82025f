/** `kvferry sweep`: compares pulling and recomputing over context lengths, links, block sizes and layouts. */
import type { KvLayout, RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { clusterOptions, forMeasuring } from '../../fleet/from-config.ts';
import type { ClusterOptions } from '../../fleet/types.ts';
import { checkPlan, type SweepPlan, type SweepWay, sweepTurns } from '../../lab/sweep.ts';
import { makeSweepReport, type SweepVariant, sweepVariants } from '../../lab/sweep-variants.ts';
import { formatSeconds, plural } from '../../measure/format.ts';
import { type CommandContext, EXIT, type ExitCode } from '../deps.ts';
import type { CommandInput, CommandSpec, Lists } from '../options/arguments.ts';
import { linksOf } from '../options/settings.ts';
import { textOutput } from '../output/json-option.ts';
import { prepareOutputs } from '../output/outputs.ts';
import { createProgress } from '../output/progress.ts';
import { styleOf } from '../output/table.ts';
import { createTimeLeft } from '../output/time-left.ts';
import { sweepCsv, sweepLines } from '../sweep-output.ts';

export const sweepSpec: CommandSpec = {
  usage: 'sweep',
  run: sweep,
  description:
    'Serve the same turn with pulled and with recomputed KV, over context lengths, links, block sizes and layouts. Find the context length from which pulling is faster.',
  groups: [
    'sweep',
    'measuring',
    'modes',
    'machine',
    'cluster',
    'pages',
    'junit',
    'asserting',
    'comparing',
    'general',
  ],
  defaults: ({ threshold }) => (threshold === undefined ? { threshold: '0,64' } : {}),
  lists: ['threshold', 'link', 'blockSize', 'layout'],
  defaultNotes: {
    threshold: '0, 64',
    rounds: '5',
    mode: 'monolithic, unidirectional, bidirectional; others are refused',
  },
  examples: [
    'kvferry sweep',
    'kvferry sweep --link none,10e6,40ms,1gbe --context 16,64,256 --csv out.csv',
    'kvferry sweep --layout contiguous,layer-pieces --block-size 16,64 --mode bidirectional',
  ],
};

const WAYS = { bidirectional: 'pull', unidirectional: 'recompute', monolithic: 'monolithic' } as const;
const CONTEXTS = [8, 16, 32, 64, 128, 256, 512, 1024];
const ROUNDS = 5;
/** A default sweep on a software adapter should take a minute. */
const LONGEST_BY_DEFAULT = 512;

async function sweep(config: RunConfig, context: CommandContext, { lists }: CommandInput): Promise<ExitCode> {
  const { deps, signal } = context;
  const { backend } = deps;
  const links = linksOf(lists);
  const architecture = await backend.architecture(config.model);
  const outputs = await prepareOutputs(config, 'sweep', architecture.name, deps);
  const adapter = await backend.useAdapter(config.adapter);
  const variants = variantsOf(config, lists, (settings) =>
    forMeasuring(clusterOptions(settings, architecture, adapter.software)),
  );
  const plan = planOf(config, links, variants);
  const progress = createProgress(deps);
  const total = variants.length * sweepTurns(plan);
  progress.line(
    `${plural(total, 'turn')} on ${adapter.name}: ${plural(variants.length, 'cluster')} of ${config.model}, ${plural(plan.rounds, 'round')}`,
  );
  const left = createTimeLeft(total, deps.now);
  progress.begin('sweep', total);
  const swept = await sweepVariants(variants, plan, backend.startCluster, {
    signal,
    onProgress: (done, _, what) => progress.update(done, `${what}, ${left.after(done)}`),
  }).finally(() => progress.end());
  if (!swept) return EXIT.interrupted;
  const report = makeSweepReport(deps, config, swept, { lists, plan, complete: !signal.aborted });
  progress.line(`swept in ${formatSeconds(left.elapsedMs())}`);
  const tables = textOutput(config, deps);
  tables.write(`${sweepLines(report, styleOf(deps.color)).join('\n')}\n`);
  if (config.csv !== null) await deps.writeTextFile(config.csv, sweepCsv(report));
  const asserted = await outputs.finish(report);
  return report.complete ? asserted : EXIT.interrupted;
}

/** Throws ConfigError when a point does not fit. */
function planOf(config: RunConfig, links: SweepPlan['links'], variants: readonly SweepVariant[]): SweepPlan {
  const { maxModelLen } = variants[0]!.options;
  const ways = config.mode.map((mode): SweepWay => {
    const way = mode in WAYS ? WAYS[mode as keyof typeof WAYS] : null;
    if (way) return way;
    throw new ConfigError(`--mode is ${mode}: a sweep needs one or more of ${Object.keys(WAYS).join(', ')}`);
  });
  const longest = Math.max(...config.localHit) + config.newTokens + 2;
  const byDefault = CONTEXTS.filter(
    (tokens) => tokens <= LONGEST_BY_DEFAULT && 2 * (tokens + longest) <= maxModelLen,
  );
  const plan: SweepPlan = {
    links,
    contexts: (config.context ?? byDefault).toSorted((a, b) => a - b),
    localHits: config.localHit,
    newTokens: config.newTokens,
    rounds: config.rounds ?? ROUNDS,
    ways,
    seed: config.seed,
  };
  for (const { options } of variants) checkPlan(plan, options);
  return plan;
}

function variantsOf(
  config: RunConfig,
  lists: Lists,
  optionsOf: (settings: RunConfig) => ClusterOptions,
): SweepVariant[] {
  const sizes = (lists.blockSize ?? [config.blockSize]).map(Number);
  const layouts = (lists.layout ?? [config.layout]) as KvLayout[];
  return sizes.flatMap((blockSize) =>
    layouts.map((layout) => ({
      options: { ...optionsOf({ ...config, blockSize, layout, link: null }), mode: 'bidirectional' as const },
      blockSize,
      layout,
    })),
  );
}
