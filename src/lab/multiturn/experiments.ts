/** What is compared under which conditions: P's prefix caching off, on, and with a pool too small for all conversations. */
import { type ExperimentName, shareOf } from '../../config/bench-schema.ts';
import type { Mode } from '../../config/modes.ts';
import type { PathName } from '../../config/paths.ts';
import type { RoutingChoice } from '../../config/routing.ts';
import type { RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { routingChoice } from '../../fleet/from-config.ts';
import { fleetOf } from '../../fleet/seats.ts';
import type { LinkSpec } from '../../transport/link.ts';
import { pr32553Published } from '../../workload/pr32553.ts';
import type { BenchConversation } from '../../workload/types.ts';
import { needBlocks } from '../pools.ts';
import { type PathChoice, pathChoice } from './paths.ts';

/** One side of a comparison. */
export interface Arm {
  /** In reports. */
  key: string;
  label: string;
  mode: Mode;
  threshold: number;
  /** Where policies are compared. */
  routing?: RoutingChoice;
  /** Where ways of KV are compared. */
  path?: PathChoice;
  /** Of a model with windows: whether every block of every layer is kept all the same. */
  allFullKv?: boolean;
  /** A sample of its turns is served both ways: an arm for the audit alone, whose times are compared with no other's. */
  audited?: true;
}

export interface ExperimentPlan {
  name: ExperimentName;
  /** In reports: snake_case. */
  key: string;
  title: string;
  /** The pool that should be too small has room for all: as many conversations are under way as there are clients. */
  roomy?: boolean;
  prefixCaching: boolean;
  pBlocks: number;
  dBlocks: number;
  arms: readonly Arm[];
  /** Where several are compared; absent: the cluster's. */
  link?: LinkSpec | null;
  published: (typeof pr32553Published)['prefixCaching'] | null;
}

export interface WorkloadSize {
  /** Prompt and output of the longest conversation at its end, tokens. */
  longest: number;
  /** Blocks that all active conversations take together, at their ends. */
  activeBlocks: number;
  longestBlocks: number;
  numGroups: number;
}

/** vLLM's default, unscaled. */
export const UNSCALED_THRESHOLD = 64;

/** The same of prompts whose lengths are divided by that. */
export const scaledThreshold = (divisor: number): number =>
  Math.max(1, Math.round(UNSCALED_THRESHOLD / divisor));

/** Of what all active conversations take: P's pool in the experiment that makes it evict. */
const EVICTION_SHARE = 0.4;

/** Messages of text take some tokens of the chat template each. */
const TEMPLATE_TOKENS = 8;

export function sizeOf(
  conversations: readonly BenchConversation[],
  maxActive: number,
  blockSize: number,
  fallbackOutput: number,
  /** KV cache groups: each takes blocks of its own, windows not counted. */
  numGroups: number,
): WorkloadSize {
  const lengths = conversations
    .map(({ turns }) =>
      turns.reduce(
        (sum, turn) =>
          sum +
          turn.inputTokens +
          (turn.outputTokens ?? fallbackOutput) +
          (turn.content.kind === 'text' ? (turn.content.messages.length + 1) * TEMPLATE_TOKENS : 0),
        0,
      ),
    )
    .sort((a, b) => b - a);
  const blocks = lengths.map((tokens) => numGroups * (Math.ceil(tokens / blockSize) + 1));
  return {
    longest: lengths[0]!,
    activeBlocks: blocks.slice(0, maxActive).reduce((sum, n) => sum + n, 0),
    longestBlocks: blocks[0]!,
    numGroups,
  };
}

/** What a fleet's file says of an engine wins over what an experiment sets: it would be told of as what it is not. Throws ConfigError. */
function refuseOwn(config: RunConfig): void {
  const { experiments, paths } = config;
  const { seats } = fleetOf(config);
  const prefill = seats.filter(({ role }) => role === 'prefill');
  // Of ways D's pool is as small as P's.
  const evicting = paths === null ? prefill : seats;
  const troubles = [
    ['no-prefix-caching', prefill.find(({ own }) => own.enablePrefixCaching), 'prefixCaching'],
    ['eviction', evicting.find(({ own }) => own.numBlocks !== undefined), 'blocks'],
  ] as const;
  for (const [name, seat, field] of troubles)
    if (seat && experiments!.includes(name))
      throw new ConfigError(
        `--experiments has ${name}, and the file of --fleet gives ${seat.name} ${field} of its own: leave that out there, or give --experiments prefix-caching, in which engines are as the file says`,
      );
}

/** Throws ConfigError for pools that cannot hold what runs at the same time, and for engines that an experiment cannot set. */
export function planExperiments(
  config: RunConfig,
  size: WorkloadSize,
  scale: number,
  /** Layers have windows: what these save is measured too. */
  windows: boolean,
  /** Of a comparison of ways: each is an experiment of its own. */
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
      `${option} is ${blocks} and the longest conversation takes ${size.longestBlocks} blocks of ${config.blockSize} tokens, besides the null block: give ${size.longestBlocks + 1} or more`,
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

/** What D keeps for others is to be paid for in the memory that all ways have: D's pool is then as small as P's. */
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

/** The same for fewer conversations: the pool that is to be too small must be so for these. Arms stay the same objects. */
export function fitPools(
  plans: readonly ExperimentPlan[],
  size: WorkloadSize,
  numClients: number,
): readonly ExperimentPlan[] {
  return plans.map((plan) =>
    plan.name === 'eviction' ? titled(tight(plan, evictingPool(size, numClients, plan.pBlocks)), size) : plan,
  );
}

/** Of a comparison of ways D has no more than P. */
const tight = (plan: ExperimentPlan, blocks: number): ExperimentPlan => ({
  ...plan,
  pBlocks: blocks,
  dBlocks: plan.link === undefined ? plan.dBlocks : Math.min(blocks, plan.dBlocks),
});

/** Of the experiment that is to evict: by what its pools are to these conversations; one block is the null block. */
function titled(plan: Untitled, { activeBlocks }: WorkloadSize): ExperimentPlan {
  const { name, link } = plan;
  const over = link === undefined ? '' : `; ${link ? `modelled link ${link.name}` : "memory's speed"}`;
  if (name !== 'eviction') return { ...plan, title: `${TITLES[name]}${over}` };
  const roomy = plan.pBlocks > activeBlocks;
  const pools = link === undefined ? "P's pool is" : 'both pools are';
  const size = roomy ? 'small, with room' : 'too small';
  return { ...plan, roomy, title: `${pools} ${size} for all active conversations${over}` };
}

/** Too small for all, large enough for what runs at the same time. */
const evictingPool = (
  { longestBlocks, activeBlocks }: WorkloadSize,
  numClients: number,
  most: number,
): number =>
  Math.min(most, Math.max(numClients * longestBlocks + 1, Math.floor(EVICTION_SHARE * activeBlocks)));

const TITLES: Record<Exclude<ExperimentName, 'eviction'>, string> = {
  'no-prefix-caching': 'P keeps nothing between turns',
  'prefix-caching': 'P keeps its KV between turns',
};

const publishedFor = (name: ExperimentName): ExperimentPlan['published'] =>
  name === 'eviction'
    ? null
    : pr32553Published[name === 'prefix-caching' ? 'prefixCaching' : 'noPrefixCaching'];

interface ArmChoice {
  /** decode-local, the unscaled threshold and all KV kept are rows of one experiment: they cost time and tell the same in each. */
  extra: boolean;
  scale: number;
  windows: boolean;
}

function armsOf(config: RunConfig, choice: ArmChoice): Arm[] {
  if (config.routing.length > 1) return policyArms(config);
  const arms = modeArms(config, choice);
  if (!choice.windows) return arms;
  const allKept = choice.extra
    ? [keepingAll(arms.find(({ mode }) => mode === 'bidirectional') ?? arms[0]!)]
    : [];
  return [...arms.map((arm) => ({ ...arm, allFullKv: false })), ...allKept];
}

const keepingAll = (arm: Arm): Arm => ({
  ...arm,
  key: `${arm.key}_all_full_kv`,
  label: `${arm.label}, all KV kept`,
  allFullKv: true,
});

function modeArms(config: RunConfig, { extra, scale }: ArmChoice): Arm[] {
  const modes = config.mode.filter((mode) => mode !== 'decode-local' || extra || config.mode.length === 1);
  const arms = modes.map(
    (mode): Arm => ({ key: mode.replaceAll('-', '_'), label: mode, mode, threshold: config.threshold }),
  );
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
  // Where costs decide, a threshold makes no difference; one that the user named is the one to be tried.
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

/** Each policy in each mode. */
function policyArms(config: RunConfig): Arm[] {
  const { mode: modes, routing, threshold } = config;
  return modes.flatMap((mode) =>
    routing.map((name): Arm => {
      const label = modes.length > 1 ? `${mode}, ${name}` : name;
      const key = label.replace(/[^a-z0-9]+/g, '_');
      return { key, label, mode, threshold, routing: routingChoice(config, name) };
    }),
  );
}
