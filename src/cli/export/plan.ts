/** A cluster plan, independent of the target system: engines by roleset, their options, and routing. */
import type { AutoscalerName } from '../../config/autoscale.ts';
import type { Mode } from '../../config/modes.ts';
import { routingParts } from '../../config/routing.ts';
import { isUnusual, keysOf, type RunConfig, type RunKey, switchName } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { fleetOf } from '../../fleet/seats.ts';
import { servingRole } from '../../fleet/serving-role.ts';
import type { ClusterOptions } from '../../fleet/types.ts';
import { isPreset } from '../../model/architecture/presets.ts';
import { readParameters } from '../../router/policies/registry.ts';
import { connectorNotes } from '../vllm/connector-notes.ts';
import {
  carriedOfStore,
  samplingOf,
  servedNames,
  sharedOptions,
  transferConfig,
  transferOption,
  vllmModel,
} from '../vllm/engines.ts';

export type PlanRole = 'prefill' | 'decode' | 'both';
export const PLAN_ROLES: readonly PlanRole[] = ['prefill', 'decode', 'both'];

/** Engines of a role. For targets whose replicas are equal, with the settings of the first. */
export interface PlannedRole extends EngineSettings {
  replicas: number;
  /** Each with its own settings. */
  engines: readonly (EngineSettings & { name: string })[];
}

interface EngineSettings {
  /** KV blocks per engine; null: as many as the GPU can hold. */
  blocks: number | null;
  prefixCaching: boolean;
}

export interface PlannedRoleset {
  name: string;
  roles: Readonly<Partial<Record<PlanRole, PlannedRole>>>;
  /** Prompt lengths that it accepts, bounds included; `max` null: no upper bound. */
  promptTokens: { min: number; max: number | null };
}

export interface ClusterPlan {
  /** Prefix of object names. */
  name: string;
  /** The model's name in vLLM. */
  model: string;
  servedName: string;
  rolesets: readonly PlannedRoleset[];
  /** P and D are always from the same roleset. */
  replicaMode: boolean;
  /** `vllm serve` options of all engines. */
  engineOptions: readonly string[];
  blockSize: number;
  maxModelLen: number;
  maxNumSeqs: number;
  maxNumBatchedTokens: number | null;
  seed: number;
  dtype: string;
  /** Default sampling of requests. */
  sampling: Readonly<Record<string, number>>;
  /** Options that differ from their defaults and exist only in vLLM. */
  vllmOnly: readonly string[];
  /** vLLM's --kv-transfer-config of P and of D, for a router that hands KV from P to D only. */
  transfer: Readonly<Record<'prefill' | 'decode', readonly string[]>>;
  routing: { name: string; parts: readonly string[] };
  /** Parameters of a policy, given ones and defaults. Throws ConfigError. */
  parameters<T>(policy: string): T;
  /** Autoscaling rule with its bounds; null: none given. */
  autoscale: {
    rule: AutoscalerName;
    bounds: Readonly<Record<'prefill' | 'decode', readonly [number, number]>>;
  } | null;
  /** Notes about what no target can express. */
  notes: readonly string[];
  /** Notes about `transfer`, for targets with vLLM's engines. */
  transferNotes: readonly string[];
}

const VLLM_ONLY: readonly RunKey[] = ['allFullKv', 'kvCacheMetrics', 'kvTransferConfig', 'loadFailurePolicy'];

/** Settings that a plan contains, or that its notes mention separately. */
// biome-ignore format: a table
const SAID: ReadonlySet<RunKey> = new Set<RunKey>([
  'model', 'weightDtype', 'seed', 'kvDtype', 'threshold', 'blockSize', 'pBlocks', 'dBlocks', 'allFullKv', 'ttl', 'lease',
  'link', 'handover', 'prefixCaching', 'kvTransferConfig', 'loadFailurePolicy', 'maxNumBatchedTokens', 'maxNumSeqs',
  'maxModelLen', 'autoscale', 'apiKey', 'adminKey', 'kvCacheMetrics', 'kvCacheMetricsSample', 'servedModelName',
  // The manifest sets a pod's ports and addresses.
  'port', 'prefillPort', 'decodePort', 'adminPort', 'host', 'adminHost',
]);
const BOUNDS: readonly RunKey[] = ['minPrefill', 'maxPrefill', 'minDecode', 'maxDecode'];

/** Active options that the export does not carry over. */
function leftBehind(config: RunConfig): string[] {
  const said = new Set([...SAID, ...carriedOfStore(config), ...(config.autoscale ? BOUNDS : [])]);
  const groups = ['machine', 'cluster', 'store', 'serving', 'scaling'] as const;
  return keysOf(groups)
    .filter((key) => !said.has(key) && isUnusual(key, config))
    .map(switchName);
}

/** Throws ConfigError for a model that exists only in kvferry. */
export function clusterPlan(config: RunConfig, options: ClusterOptions): ClusterPlan {
  const model = vllmModel(config.model);
  // Object names and labels must not contain slashes.
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
    vllmOnly: [...VLLM_ONLY, ...carriedOfStore(config)]
      .filter((key) => isUnusual(key, config))
      .map(switchName),
    transfer: {
      prefill: transferOption(transferConfig(config, 'unidirectional', 'prefill')),
      decode: transferOption(transferConfig(config, 'unidirectional', 'decode')),
    },
    routing: { name: name!, parts: routingParts(name!).map((part) => part.name) },
    parameters: (policy) => readParameters(policy, config.routingConfig?.[policy] ?? {}) as never,
    autoscale: config.autoscale && {
      rule: config.autoscale,
      bounds: {
        prefill: [config.minPrefill, config.maxPrefill],
        decode: [config.minDecode, config.maxDecode],
      },
    },
    notes: [...notes, ...notesOf(config)],
    transferNotes: connectorNotes(config),
  };
}

/** A valid Kubernetes name: lower-case letters, digits and hyphens. */
const objectName = (text: string): string =>
  `kvferry-${text
    .toLowerCase()
    .split('/')
    .at(-1)!
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-/, '')}`
    .slice(0, 40)
    .replace(/-$/, '');

function rolesetsOf(config: RunConfig, options: ClusterOptions): Pick<ClusterPlan, 'rolesets' | 'notes'> {
  const { seats, rolesets } = fleetOf(config);
  const planned = rolesets.map(({ name, min, max }): PlannedRoleset => {
    const roles: Partial<Record<PlanRole, PlannedRole>> = {};
    for (const role of PLAN_ROLES) {
      const general = role === 'prefill' ? config.pBlocks : config.dBlocks;
      const { enablePrefixCaching } = options[role === 'prefill' ? 'prefill' : 'decode'];
      const engines = seats
        .filter((seat) => seat.roleset === name && servingRole(seat) === role)
        .map((seat) => ({
          name: seat.name,
          blocks: seat.own.numBlocks ?? general,
          prefixCaching: seat.own.enablePrefixCaching ?? enablePrefixCaching,
        }));
      const [first] = engines;
      if (!first) continue;
      const { blocks, prefixCaching } = first;
      roles[role] = { replicas: engines.length, blocks, prefixCaching, engines };
    }
    return { name, roles, promptTokens: { min, max } };
  });
  const notes = seats.some(({ node }) => node !== null)
    ? ['Nodes of engines: use node selectors or affinities, which depend on your cluster.']
    : [];
  return { rolesets: planned, notes };
}

function notesOf(config: RunConfig): string[] {
  const pulls = config.mode.some((mode: Mode) => mode === 'bidirectional');
  const behind = leftBehind(config);
  const names = servedNames(config);
  return [
    ...(behind.length > 0
      ? [`${behind.join(', ')}: for kvferry's own engines and server, not exported.`]
      : []),
    ...(names.length > 1
      ? [`Several served model names are given: this export uses the first, ${names[0]}.`]
      : []),
    ...(config.apiKey !== null || config.adminKey !== null
      ? ['Keys are not printed: pass them to the pods as secrets (VLLM_API_KEY).']
      : []),
    ...(config.model === 'recall' || !isPreset(config.model)
      ? [`${config.model} is a directory on this machine: mount it in the pods, and use its path there.`]
      : []),
    ...(pulls
      ? [
          "Pulling D's KV back: this router does not pass what D returns to P in the next turn, so bidirectional_kv_xfer is off. kvferry export vllm includes a proxy that does.",
        ]
      : []),
    ...modeNotes(config),
    ...(config.link !== null ||
    (config.fleet?.links.length ?? 0) > 0 ||
    config.fleet?.sameNode ||
    config.fleet?.acrossNodes
      ? ['Modelled links are not exported: a cluster has real links.']
      : []),
    ...(config.signalAge > 0
      ? ['--signal-age is not exported: the age of metrics depends on how often they are scraped.']
      : []),
    ...(config.routing.length > 1
      ? [`Several routing policies are given: this export uses the first, ${config.routing[0]}.`]
      : []),
    ...(config.kvDtype === 'f32' ? ["--kv-dtype f32: engines keep KV in the model's dtype, or in fp8."] : []),
    ...(config.handover === 'streamed' ? ['--handover streamed exists only in kvferry.'] : []),
  ];
}

/** A note if no mode hands KV over from P to D, which is all that these systems do. */
function modeNotes({ mode }: RunConfig): string[] {
  if (mode.some((each) => each === 'unidirectional' || each === 'bidirectional')) return [];
  return [`--mode ${mode.join(',')} is not exported: P prefills and D decodes, as in unidirectional.`];
}

/** All engines in one roleset, for systems without rolesets. */
export function pooled(rolesets: readonly PlannedRoleset[]): PlannedRoleset {
  const roles: Partial<Record<PlanRole, PlannedRole>> = {};
  for (const role of PLAN_ROLES) {
    const some = rolesets.flatMap((one) => one.roles[role] ?? []);
    const [first] = some;
    if (!first) continue;
    const engines = some.flatMap((one) => one.engines);
    roles[role] = { ...first, replicas: engines.length, engines };
  }
  return { name: 'all', roles, promptTokens: { min: 0, max: null } };
}

/** Notes for systems whose replicas must be equal, about each exported roleset where engines of one role are not. */
export const unequalNotes = (rolesets: readonly PlannedRoleset[]): string[] =>
  rolesets.flatMap(({ name, roles }) =>
    PLAN_ROLES.flatMap((role) => {
      const engines = roles[role]?.engines ?? [];
      const [first] = engines;
      const kinds = new Set(engines.map(({ blocks, prefixCaching }) => `${blocks} ${prefixCaching}`));
      if (!first || kinds.size === 1) return [];
      const where = rolesets.length === 1 ? '' : ` of roleset ${name}`;
      return [
        `The ${role} engines${where} differ in blocks or prefix caching. Replicas must be equal, so all use the settings of ${first.name}.`,
      ];
    }),
  );

/** Notes about systems that serve each roleset apart: `units` of them in replica mode, and one pool otherwise. */
export function rolesetNotes(plan: ClusterPlan, units: number, unit: string, system: string): string[] {
  if (!plan.replicaMode) return lostByPooling(plan, system);
  if (units === 1) return [];
  return [`One ${unit}: put a load balancer in front of them. Bounds on prompt lengths are not exported.`];
}

/** Notes about what is lost by pooling the rolesets. */
export function lostByPooling({ rolesets, replicaMode }: ClusterPlan, system: string): string[] {
  if (rolesets.length === 1) return [];
  const bounded = rolesets.some(({ promptTokens: { min, max } }) => min > 0 || max !== null);
  return [
    ...(replicaMode ? [`Replica mode: ${system} has no rolesets; any P may serve any D.`] : []),
    ...(bounded ? [`Prompt lengths by roleset: ${system} has no such bounds.`] : []),
  ];
}

/** A note for systems whose autoscalers are not exported. */
export const lostAutoscaler = ({ autoscale }: ClusterPlan): string[] =>
  autoscale
    ? [
        `--autoscale ${autoscale.rule} and its bounds are not exported: replicas match the fleet; set up an autoscaler separately.`,
      ]
    : [];

/** The rolesets with both P and D, for systems that support no others. Throws ConfigError if there is none. */
export function withBothRoles(
  rolesets: readonly PlannedRoleset[],
  system: string,
): readonly PlannedRoleset[] {
  const some = rolesets.filter(({ roles }) => roles.prefill && roles.decode);
  if (some.length > 0) return some;
  throw new ConfigError(
    `no roleset has both P and D engines, and ${system} needs them: give a roleset both, or export aibrix`,
  );
}

/** `vllm serve` options for a role. */
export function roleOptions(plan: ClusterPlan, { blocks, prefixCaching }: PlannedRole): string[] {
  return [
    ...plan.engineOptions,
    prefixCaching ? '--enable-prefix-caching' : '--no-enable-prefix-caching',
    ...(blocks === null ? [] : ['--num-gpu-blocks-override', String(blocks)]),
  ];
}
