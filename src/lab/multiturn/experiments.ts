/** Plans experiments: the arms to compare, and the conditions: prefix caching off, on, and with a pool that makes P evict. */
import { type ExperimentName, shareOf } from '../../config/bench-schema.ts';
import type { Mode } from '../../config/modes.ts';
import type { PathName } from '../../config/paths.ts';
import type { RoutingChoice } from '../../config/routing.ts';
import type { RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { routingChoice } from '../../fleet/from-config.ts';
import { fleetOf } from '../../fleet/seats.ts';
import { sum, sumOf } from '../../sum.ts';
import type { LinkSpec } from '../../transport/link.ts';
import { pr32553Published } from '../../workload/pr32553.ts';
import type { BenchConversation } from '../../workload/types.ts';
import { needBlocks } from '../pools.ts';
import { type PathChoice, pathChoice } from './paths.ts';

/** One side of a comparison. */
export interface Arm {
  /** Key in reports. */
  key: string;
  label: string;
  mode: Mode;
  threshold: number;
  /** Set if routing policies are compared. */
  routing?: RoutingChoice;
  /** Set if KV paths are compared. */
  path?: PathChoice;
  /** For a model with sliding windows: whether all blocks of all layers are kept nevertheless. */
  allFullKv?: boolean;
  /** An arm only for the audit of a sample of its turns. Its times are not compared with other arms'. */
  audited?: true;
}

export interface ExperimentPlan {
  name: ExperimentName;
  /** Key in reports, snake_case. */
  key: string;
  title: string;
  /** The pool that should be too small can hold all active conversations, because there are no more of them than clients. */
  roomy?: boolean;
  prefixCaching: boolean;
  pBlocks: number;
  dBlocks: number;
  arms: readonly Arm[];
  /** Set if several links are compared; absent: the cluster's link. */
  link?: LinkSpec | null;
  published: (typeof pr32553Published)['prefixCaching'] | null;
}

export interface WorkloadSize {
  /** Tokens of the longest conversation at its end. */
  longest: number;
  /** Blocks of the largest possible set of active conversations, at their ends. */
  activeBlocks: number;
  longestBlocks: number;
  numGroups: number;
}

/** vLLM's default, unscaled. */
export const UNSCALED_THRESHOLD = 64;

/** The default threshold for a workload whose lengths are divided by `divisor`. */
export const scaledThreshold = (divisor: number, unscaled: number = UNSCALED_THRESHOLD): number =>
  Math.max(1, Math.round(unscaled / divisor));

/** P's pool in the eviction experiment, as a share of the blocks of all active conversations. */
const EVICTION_SHARE = 0.4;

/** Estimated tokens that the chat template adds to each text message. */
const TEMPLATE_TOKENS = 8;

export function sizeOf(
  conversations: readonly BenchConversation[],
  maxActive: number,
  blockSize: number,
  fallbackOutput: number,
  /** KV cache groups. Each takes its own blocks; savings by windows are ignored. */
  numGroups: number,
): WorkloadSize {
  const lengths = conversations
    .map(({ turns }) =>
      sumOf(
        turns,
        (turn) =>
          turn.inputTokens +
          (turn.outputTokens ?? fallbackOutput) +
          (turn.content.kind === 'text' ? (turn.content.messages.length + 1) * TEMPLATE_TOKENS : 0),
      ),
    )
    .sort((a, b) => b - a);
  const blocks = lengths.map((tokens) => numGroups * (Math.ceil(tokens / blockSize) + 1));
  return {
    longest: lengths[0]!,
    activeBlocks: sum(blocks.slice(0, maxActive)),
    longestBlocks: blocks[0]!,
    numGroups,
  };
}

/** Throws ConfigError if the fleet file overrides an experiment's settings: the report would describe the engine wrongly. */
function refuseOwn(config: RunConfig): void {
  const { experiments, paths } = config;
  const { seats } = fleetOf(config);
  const prefill = seats.filter(({ role }) => role === 'prefill');
  // In a comparison of paths, D's pool is limited too.
  const evicting = paths === null ? prefill : seats;
  const troubles = [
    ['no-prefix-caching', prefill.find(({ own }) => own.enablePrefixCaching), 'prefixCaching'],
    ['eviction', evicting.find(({ own }) => own.numBlocks !== undefined), 'blocks'],
  ] as const;
  for (const [name, seat, field] of troubles)
    if (seat && experiments!.includes(name))
      throw new ConfigError(
        `--experiments has ${name}, but the --fleet file sets ${field} for ${seat.name}: remove it from the file, or give --experiments prefix-caching, which uses the file's settings`,
      );
}

/** Throws ConfigError if a pool cannot hold the longest conversation, or the fleet file overrides an experiment's settings. */
export function planExperiments(
  config: RunConfig,
  size: WorkloadSize,
  scale: number,
  /** The model has sliding windows, so what they save is measured too. */
  windows: boolean,
  /** For a comparison of paths: one experiment per link. */
  links: readonly (LinkSpec | null)[] = [],
): readonly ExperimentPlan[] {
  refuseOwn(config);
  const names = config.experiments!;
  const clients = config.numClients;
  const roomy = size.activeBlocks + clients * 2 * size.numGroups + 1;
  const dBlocks = config.dBlocks ?? roomy;
  const pBlocks = config.pBlocks ?? roomy;
  needBlocks(
    { prefill: pBlocks, decode: dBlocks },
    size.longestBlocks + 1,
    (option, blocks) =>
      `${option} is ${blocks}, but the longest conversation needs ${size.longestBlocks} blocks of ${config.blockSize} tokens and the null block: give ${size.longestBlocks + 1} or more`,
  );
  const withCache = names.includes('prefix-caching') ? 'prefix-caching' : names[0]!;
  const plans = names.map(
    (name): Untitled => ({
      name,
      key: name.replaceAll('-', '_'),
      prefixCaching: name !== 'no-prefix-caching',
      pBlocks: name === 'eviction' ? evictingPool(size, clients, pBlocks) : pBlocks,
      dBlocks,
      arms: armsOf(config, { extra: name === withCache, scale, windows }),
      published: config.preset === 'pr32553' && config.routing.length === 1 ? publishedFor(name) : null,
    }),
  );
  const all =
    config.paths === null ? plans : plans.flatMap((plan) => overLinks(plan, config.paths!, config, links));
  return all.map((plan) => titled(plan, size));
}

type Untitled = Omit<ExperimentPlan, 'title' | 'roomy'>;

/** One plan per link, with the paths as arms. When evicting, D's pool is limited like P's, so that D's holds need room in it. */
function overLinks(
  plan: Untitled,
  paths: readonly PathName[],
  config: RunConfig,
  links: readonly (LinkSpec | null)[],
): Untitled[] {
  return links.map((link) => ({
    ...plan,
    key: link ? `${plan.key}_${link.name.replace(/[^a-z0-9]+/gi, '_')}` : plan.key,
    dBlocks: plan.name === 'eviction' ? Math.min(plan.pBlocks, plan.dBlocks) : plan.dBlocks,
    link,
    arms: paths.map((name): Arm => {
      const path = pathChoice(name, config);
      const key = name.replaceAll('-', '_');
      return { key, label: name, mode: path.mode, threshold: config.threshold, path };
    }),
    published: null,
  }));
}

/** Adapts the eviction pools to fewer conversations. Arms stay the same objects. */
export function fitPools(
  plans: readonly ExperimentPlan[],
  size: WorkloadSize,
  numClients: number,
): readonly ExperimentPlan[] {
  return plans.map((plan) =>
    plan.name === 'eviction' ? titled(tight(plan, evictingPool(size, numClients, plan.pBlocks)), size) : plan,
  );
}

/** Sets P's pool; in a comparison of paths, D's pool is at most as large. */
const tight = (plan: ExperimentPlan, blocks: number): ExperimentPlan => ({
  ...plan,
  pBlocks: blocks,
  dBlocks: plan.link === undefined ? plan.dBlocks : Math.min(blocks, plan.dBlocks),
});

/** Adds the title; for the eviction experiment, it says whether the pool can hold all active conversations. */
function titled(plan: Untitled, { activeBlocks }: WorkloadSize): ExperimentPlan {
  const { name, link } = plan;
  const onLink = link === undefined ? '' : `; ${linkInWords(link)}`;
  if (name !== 'eviction') return { ...plan, title: `${TITLES[name]}${onLink}` };
  const roomy = plan.pBlocks > activeBlocks;
  const [pools, have] = link === undefined ? ["P's pool is", 'has'] : ['both pools are', 'have'];
  const size = roomy ? `small, but ${have} room` : 'too small';
  return { ...plan, roomy, title: `${pools} ${size} for all active conversations${onLink}` };
}

export const linkInWords = (link: LinkSpec | null): string =>
  link ? `modelled link ${link.name}` : "memory's speed";

/** Too small for all active conversations, but large enough for one per client. */
const evictingPool = (
  { longestBlocks, activeBlocks }: WorkloadSize,
  numClients: number,
  most: number,
): number =>
  Math.min(most, Math.max(numClients * longestBlocks + 1, Math.floor(EVICTION_SHARE * activeBlocks)));

export const TITLES: Record<Exclude<ExperimentName, 'eviction'>, string> = {
  'no-prefix-caching': 'P keeps nothing between turns',
  'prefix-caching': 'P keeps its KV between turns',
};

const publishedFor = (name: ExperimentName): ExperimentPlan['published'] =>
  name === 'eviction'
    ? null
    : pr32553Published[name === 'prefix-caching' ? 'prefixCaching' : 'noPrefixCaching'];

interface ArmChoice {
  /** Whether to add the arms decode-local, unscaled threshold and all KV kept: in one experiment only, to save time. */
  extra: boolean;
  scale: number;
  windows: boolean;
}

function armsOf(config: RunConfig, choice: ArmChoice): Arm[] {
  if (config.routing.length > 1) return policyArms(config);
  const arms = modeArms(config, choice);
  if (!choice.windows) return arms;
  const allKv = choice.extra
    ? [keepingAll(arms.find(({ mode }) => mode === 'bidirectional') ?? arms[0]!)]
    : [];
  return [...arms.map((arm) => ({ ...arm, allFullKv: false })), ...allKv];
}

const keepingAll = (arm: Arm): Arm => ({
  ...arm,
  key: `${arm.key}_all_full_kv`,
  label: `${arm.label}, all KV kept`,
  allFullKv: true,
});

function modeArms(config: RunConfig, { extra, scale }: ArmChoice): Arm[] {
  const modes = config.mode.filter((mode) => mode !== 'decode-local' || extra || config.mode.length === 1);
  const arms = modes.map((mode) => modeArm(mode, config));
  const costAware = config.pullPolicy === 'cost-aware';
  if (shareOf(config.audit) > 0) {
    arms.push({
      key: 'bidirectional_audited',
      label: 'bidirectional, audited',
      mode: 'bidirectional',
      threshold: config.threshold,
      audited: true,
    });
  }
  // Not if costs decide instead of a threshold, or if the user gave a threshold.
  if (
    !costAware &&
    extra &&
    scale > 1 &&
    config.threshold === scaledThreshold(scale) &&
    config.threshold !== UNSCALED_THRESHOLD &&
    modes.includes('bidirectional')
  ) {
    arms.push({
      key: `bidirectional_threshold_${UNSCALED_THRESHOLD}`,
      label: `bidirectional, threshold ${UNSCALED_THRESHOLD}`,
      mode: 'bidirectional',
      threshold: UNSCALED_THRESHOLD,
    });
  }
  return arms;
}

export const modeArm = (mode: Mode, { threshold }: RunConfig): Arm => ({
  key: mode.replaceAll('-', '_'),
  label: mode,
  mode,
  threshold,
});

/** One arm for each routing policy in each mode. */
export function policyArms(config: RunConfig): Arm[] {
  const { mode: modes, routing, threshold } = config;
  return modes.flatMap((mode) =>
    routing.map((name): Arm => {
      const label = modes.length > 1 ? `${mode}, ${name}` : name;
      const key = label.replace(/[^a-z0-9]+/g, '_');
      return { key, label, mode, threshold, routing: routingChoice(config, name) };
    }),
  );
}
