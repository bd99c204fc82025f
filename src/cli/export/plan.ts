/** What a cluster is to be, whichever system runs it: engines by roleset, what each is started with, who routes. */
import type { AutoscalerName } from '../../config/autoscale.ts';
import type { Mode } from '../../config/modes.ts';
import { type RoutingName, routingParts } from '../../config/routing.ts';
import { isUnusual, type RunConfig, type RunKey, switchName } from '../../config/run.ts';
import { ConfigError, messageOf } from '../../errors.ts';
import { fleetOf, type Seat } from '../../fleet/seats.ts';
import type { ClusterOptions } from '../../fleet/types.ts';
import { isPreset } from '../../model/presets.ts';
import { POLICIES } from '../../router/policies/registry.ts';
import { keysOf } from '../unused.ts';
import {
  carriedOfStore,
  connectorNotes,
  samplingOf,
  servedNames,
  sharedOptions,
  transferConfig,
  vllmModel,
} from '../vllm/engines.ts';

export type PlanRole = 'prefill' | 'decode' | 'both';
export const PLAN_ROLES: readonly PlanRole[] = ['prefill', 'decode', 'both'];

export interface PlannedRole {
  replicas: number;
  /** KV blocks of each; null: as many as the GPU holds. */
  blocks: number | null;
  prefixCaching: boolean;
}

export interface PlannedRoleset {
  name: string;
  roles: Readonly<Partial<Record<PlanRole, PlannedRole>>>;
  /** Prompts that it takes, both included; `max` null: however long. */
  promptTokens: { min: number; max: number | null };
}

export interface ClusterPlan {
  /** Names of objects begin with it. */
  name: string;
  /** As vLLM calls it. */
  model: string;
  servedName: string;
  rolesets: readonly PlannedRoleset[];
  /** P and D of one roleset only. */
  replicaMode: boolean;
  /** `vllm serve`'s options of every engine. */
  engineOptions: readonly string[];
  blockSize: number;
  maxModelLen: number;
  maxNumSeqs: number;
  maxNumBatchedTokens: number | null;
  seed: number;
  dtype: string;
  /** Of requests that do not say. */
  sampling: Readonly<Record<string, number>>;
  /** Settings that differ from their defaults and that only vLLM has, as options. */
  vllmOnly: readonly string[];
  /** vLLM's --kv-transfer-config for a router that hands KV from P to D only. */
  transfer: Readonly<Record<string, unknown>>;
  routing: { name: string; parts: readonly RoutingName[] };
  /** Parameters of a policy, those given and the defaults. Throws ConfigError. */
  parameters<T>(policy: RoutingName): T;
  /** Engines come and go by this rule, within these bounds; null: nobody said. */
  autoscale: {
    rule: AutoscalerName;
    bounds: Readonly<Record<'prefill' | 'decode', readonly [number, number]>>;
  } | null;
  /** What no target can say. */
  notes: readonly string[];
}

const VLLM_ONLY: readonly RunKey[] = ['allFullKv', 'kvCacheMetrics', 'kvTransferConfig', 'loadFailurePolicy'];

/** What a plan has of how engines serve, or what its notes tell in words of their own. */
// biome-ignore format: a table
const SAID: ReadonlySet<RunKey> = new Set<RunKey>([
  'model', 'weightDtype', 'seed', 'kvDtype', 'threshold', 'blockSize', 'pBlocks', 'dBlocks', 'allFullKv', 'ttl', 'lease',
  'link', 'handover', 'prefixCaching', 'kvTransferConfig', 'loadFailurePolicy', 'maxNumBatchedTokens', 'maxNumSeqs',
  'maxModelLen', 'autoscale', 'apiKey', 'adminKey', 'kvCacheMetrics', 'kvCacheMetricsSample', 'servedModelName',
  // Where a pod's are is the manifest's.
  'port', 'prefillPort', 'decodePort', 'adminPort', 'host', 'adminHost',
]);
const BOUNDS: readonly RunKey[] = ['minPrefill', 'maxPrefill', 'minDecode', 'maxDecode'];

/** Options in force that nothing here stands for. */
function leftBehind(config: RunConfig): string[] {
  const said = new Set([...SAID, ...carriedOfStore(config), ...(config.autoscale ? BOUNDS : [])]);
  const groups = ['machine', 'cluster', 'store', 'serving', 'scaling'] as const;
  return keysOf(groups)
    .filter((key) => !said.has(key) && isUnusual(key, config))
    .map(switchName);
}

/** Throws ConfigError for a model that exists here only. */
export function clusterPlan(config: RunConfig, options: ClusterOptions): ClusterPlan {
  const model = vllmModel(config.model);
  // Names of objects and labels have no slashes.
  const [servedName = model.split('/').at(-1)!] = servedNames(config);
  const { rolesets, notes } = rolesetsOf(config, options);
  const [name] = config.routing;
  return {
    name: objectName(servedName),
    model,
    servedName,
    rolesets,
    replicaMode: config.modeOfFleet === 'replica',
    engineOptions: sharedOptions(config, options),
    blockSize: options.blockSize,
    maxModelLen: options.maxModelLen,
    maxNumSeqs: options.maxNumSeqs,
    maxNumBatchedTokens: config.maxNumBatchedTokens,
    seed: config.seed,
    dtype: options.weightDtype === 'f16' ? 'float16' : 'float32',
    sampling: samplingOf(config),
    vllmOnly: VLLM_ONLY.filter((key) => isUnusual(key, config)).map(switchName),
    transfer: { ...transferConfig(config, 'unidirectional'), kv_role: 'kv_both' },
    routing: { name: name!, parts: routingParts(name!).map((part) => part.name) },
    parameters: (policy) => readParameters(config, policy) as never,
    autoscale: config.autoscale && {
      rule: config.autoscale,
      bounds: {
        prefill: [config.minPrefill, config.maxPrefill],
        decode: [config.minDecode, config.maxDecode],
      },
    },
    notes: [...notes, ...notesOf(config)],
  };
}

/** As Kubernetes takes names: lower case, digits and hyphens. */
const objectName = (text: string): string =>
  `kvferry-${text
    .toLowerCase()
    .split('/')
    .at(-1)!
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-/, '')}`
    .slice(0, 40)
    .replace(/-$/, '');

function readParameters({ routingConfig }: RunConfig, policy: RoutingName): unknown {
  try {
    return POLICIES[policy].read(routingConfig?.[policy] ?? {});
  } catch (error) {
    throw new ConfigError(
      `--routing-config has parameters of ${policy} that cannot be: ${messageOf(error)}`,
      {
        cause: error,
      },
    );
  }
}

function rolesetsOf(
  config: RunConfig,
  options: ClusterOptions,
): { rolesets: PlannedRoleset[]; notes: string[] } {
  const { seats, rolesets } = fleetOf(config);
  const notes: string[] = [];
  const roleOf = (seat: Seat): PlanRole => (seat.combined ? 'both' : seat.role);
  const planned = rolesets.map(({ name, min, max }): PlannedRoleset => {
    const roles: Partial<Record<PlanRole, PlannedRole>> = {};
    for (const role of PLAN_ROLES) {
      const engines = seats.filter((seat) => seat.roleset === name && roleOf(seat) === role);
      const [first] = engines;
      if (!first) continue;
      if (engines.some(({ own }) => JSON.stringify(own) !== JSON.stringify(first.own)))
        notes.push(
          `The ${role} engines of roleset ${name} differ in blocks or prefix caching: replicas are all alike, so all are as ${first.name}.`,
        );
      const general = role === 'prefill' ? config.pBlocks : config.dBlocks;
      const { enablePrefixCaching } = options[role === 'prefill' ? 'prefill' : 'decode'];
      roles[role] = {
        replicas: engines.length,
        blocks: first.own.numBlocks ?? general,
        prefixCaching: first.own.enablePrefixCaching ?? enablePrefixCaching,
      };
    }
    return { name, roles, promptTokens: { min, max } };
  });
  if (seats.some(({ node }) => node !== null))
    notes.push('Nodes of engines: say it with node selectors or affinities, which depend on your cluster.');
  return { rolesets: planned, notes };
}

function notesOf(config: RunConfig): string[] {
  const pulls = config.mode.some((mode: Mode) => mode === 'bidirectional');
  const behind = leftBehind(config);
  const names = servedNames(config);
  return [
    ...(behind.length > 0
      ? [`${behind.join(', ')}: of kvferry's engines and server, and not carried over.`]
      : []),
    ...(names.length > 1
      ? [`Several served model names are given: this is for the first, ${names[0]}.`]
      : []),
    ...(config.apiKey !== null || config.adminKey !== null
      ? ['Keys are not printed: give them to the pods as secrets (VLLM_API_KEY).']
      : []),
    ...connectorNotes(config),
    ...(config.model === 'recall' || !isPreset(config.model)
      ? [`${config.model} is a directory of this machine: mount it in the pods, and give its path there.`]
      : []),
    ...(pulls
      ? [
          "Pulling D's KV back: this router does not hand what D returns to the next turn's P, so bidirectional_kv_xfer is off. kvferry export vllm has a proxy that does.",
        ]
      : []),
    ...(config.link !== null ||
    (config.fleet?.links.length ?? 0) > 0 ||
    config.fleet?.sameNode ||
    config.fleet?.acrossNodes
      ? ["Modelled links: a cluster's are what they are."]
      : []),
    ...(config.signalAge > 0
      ? ['--signal-age: how old metrics are follows from how often they are scraped.']
      : []),
    ...(config.routing.length > 1
      ? [`Several routing policies are given: this is for the first, ${config.routing[0]}.`]
      : []),
    ...(config.kvDtype === 'f32' ? ["--kv-dtype f32: engines keep KV in the model's dtype, or in fp8."] : []),
    ...(config.handover === 'streamed' ? ["--handover streamed is kvferry's own."] : []),
  ];
}

/** One roleset of all engines, for systems that know no rolesets. */
export function pooled(rolesets: readonly PlannedRoleset[]): PlannedRoleset {
  const roles: Partial<Record<PlanRole, PlannedRole>> = {};
  for (const role of PLAN_ROLES) {
    const some = rolesets.flatMap((one) => one.roles[role] ?? []);
    const [first] = some;
    if (first) roles[role] = { ...first, replicas: some.reduce((sum, { replicas }) => sum + replicas, 0) };
  }
  return { name: 'all', roles, promptTokens: { min: 0, max: null } };
}

/** Where engines of one role are to be all alike, and are not. */
export function lostByLikeness(rolesets: readonly PlannedRoleset[]): string[] {
  const differ = PLAN_ROLES.some((role) => {
    const kinds = rolesets
      .flatMap(({ roles }) => roles[role] ?? [])
      .map(({ replicas: _, ...own }) => JSON.stringify(own));
    return new Set(kinds).size > 1;
  });
  return differ ? ['Engines of one role differ between rolesets: all are as those of the first.'] : [];
}

/** What pooling them lets go. */
export function lostByPooling({ rolesets, replicaMode }: ClusterPlan, system: string): string[] {
  if (rolesets.length === 1) return [];
  const bounded = rolesets.some(({ promptTokens: { min, max } }) => min > 0 || max !== null);
  return [
    ...(replicaMode ? [`Replica mode: ${system} knows no rolesets; any P may serve any D.`] : []),
    ...(bounded ? [`Prompt lengths by roleset: ${system} has no such bounds.`] : []),
    ...lostByLikeness(rolesets),
  ];
}

/** For systems whose own autoscalers are not set up here. */
export const lostAutoscaler = ({ autoscale }: ClusterPlan): string[] =>
  autoscale
    ? [
        `--autoscale ${autoscale.rule} and its bounds: replicas are as many as the fleet has; who scales them is set up elsewhere.`,
      ]
    : [];

/** Those with P and D, for systems that know no others. Throws ConfigError where there is none. */
export function withBothRoles(
  rolesets: readonly PlannedRoleset[],
  system: string,
): readonly PlannedRoleset[] {
  const some = rolesets.filter(({ roles }) => roles.prefill && roles.decode);
  if (some.length > 0) return some;
  throw new ConfigError(
    `the fleet has engines that do both only, and ${system} is told of P and D: give a roleset both, or export aibrix`,
  );
}

/** `vllm serve`'s options for a role. */
export function roleOptions(plan: ClusterPlan, { blocks, prefixCaching }: PlannedRole): string[] {
  return [
    ...plan.engineOptions,
    prefixCaching ? '--enable-prefix-caching' : '--no-enable-prefix-caching',
    ...(blocks === null ? [] : ['--num-gpu-blocks-override', String(blocks)]),
  ];
}

export const transferOption = ({ transfer }: ClusterPlan): string[] => [
  '--kv-transfer-config',
  JSON.stringify(transfer),
];
