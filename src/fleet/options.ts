/** Derives what each engine is started with from a cluster's options. */
import { unmeasured } from '../config/arithmetic.ts';
import { HANDOVERS, type Handover, LOAD_FAILURE_POLICIES } from '../config/cluster-schema.ts';
import { usesNixl, usesStore } from '../config/connectors.ts';
import type { EngineCoreConfig } from '../config/engine.ts';
import { didYouMean } from '../config/fields.ts';
import { MODES, type Mode } from '../config/modes.ts';
import { ConfigError } from '../errors.ts';
import type { EngineStart } from '../host/engine-api.ts';
import { listed } from '../measure/format.ts';
import type { KernelSet } from '../model/kernels/pass-kernels.ts';
import type { EngineRole } from '../router/engine-client.ts';
import { admittingEngines, place } from '../router/placement.ts';
import { checkRule } from '../router/scaling/drain.ts';
import { SILENCE_MS } from '../transport/deadlines.ts';
import type { LinkSpec } from '../transport/link.ts';
import { type FleetOptions, linkBetween, plainFleet, type Seat } from './seats.ts';
import type { ClusterOptions, EngineOptions, PolicyChange } from './types.ts';

/** vLLM's default side channel port (VLLM_NIXL_SIDE_CHANNEL_PORT). Only a name here; no socket is opened. */
const SIDE_CHANNEL_PORT = 5600;

/** Seed of every engine's block hashes, so that equal prefixes have equal hashes everywhere. */
export const HASH_SEED = 'kvferry';

type Counted = Pick<ClusterOptions, EngineRole | 'fleet'>;

/** The fleet given engine by engine, or the one that the counts describe. */
export const fleetIn = ({ fleet, prefill, decode }: Counted): FleetOptions =>
  fleet ?? plainFleet({ prefill: prefill.count ?? 1, decode: decode.count ?? 1 });

/** The seats of a cluster. */
export const seatsOf = (options: Counted): readonly Seat[] => fleetIn(options).seats;

/** For people to read: 'P and D', '2 P and 3 D', '2 P, 3 D and 1 that does both'. */
export function countEngines(options: Counted): string {
  const { seats } = fleetIn(options);
  const count = (role: EngineRole): number =>
    seats.filter((seat) => seat.role === role && !seat.combined).length;
  const [prefill, decode] = [count('prefill'), count('decode')];
  const both = seats.length - prefill - decode;
  if (prefill === 1 && decode === 1 && both === 0) return 'P and D';
  const pair = prefill === 0 ? [] : [`${prefill} P`, `${decode} D`];
  const named = both === 0 ? pair : [...pair, `${both} that ${both === 1 ? 'does' : 'do'} both`];
  return listed(named);
}

/** The modelled links between P and the D that it hands over to, each once; null: none. */
export function linksOfPairs(
  options: Counted & Pick<ClusterOptions, 'link' | 'placement'>,
): (LinkSpec | null)[] {
  const fleet = fleetIn(options);
  const of = (role: EngineRole) => fleet.seats.filter((seat) => seat.role === role && !seat.combined);
  const links = of('prefill').flatMap(({ name, roleset }) =>
    of('decode')
      .filter((decode) => options.placement !== 'replica' || decode.roleset === roleset)
      .map((decode) => linkBetween(fleet, name, decode.name) ?? options.link),
  );
  return [...new Map(links.map((link) => [link?.name, link])).values()];
}

/** The modelled link between P and D: the fleet's where it gives all pairs the same one, otherwise the cluster's. */
export function linkOfPairs(options: Counted & Pick<ClusterOptions, 'link' | 'placement'>): LinkSpec | null {
  const [link = null, ...others] = linksOfPairs(options);
  return others.length === 0 ? link : options.link;
}

/** An engine's pool size and whether it caches prefixes: its own settings, or its role's. */
export const poolOf = (
  options: Pick<ClusterOptions, EngineRole>,
  { role, own }: Seat,
): Pick<EngineOptions, 'numBlocks' | 'enablePrefixCaching'> => {
  const { numBlocks, enablePrefixCaching } = options[role];
  return { numBlocks, enablePrefixCaching, ...own };
};

/** Blocks of the smallest pool of the fleet. */
export const smallestPool = (options: Counted): number =>
  Math.min(...seatsOf(options).map((seat) => poolOf(options, seat).numBlocks));

/**
 * Blocks of the smallest pool among the P and D that may serve a prompt of promptTokens tokens together; null: no P and D
 * take it.
 */
export function pairPool(
  promptTokens: number,
  options: Counted & Pick<ClusterOptions, 'placement'>,
): number | null {
  const { rolesets, seats } = fleetIn(options);
  const views = seats.map((seat) => ({ ...seat, ended: false }));
  if (admittingEngines(promptTokens, views, rolesets).length === 0) return null;
  const placement = { mode: options.placement ?? 'pooled', rolesets };
  const { prefill, decode, alone } = place({ promptTokens, alone: false }, views, placement);
  if (alone) return null;
  return Math.min(...[...prefill, ...decode].map((seat) => poolOf(options, seat).numBlocks));
}

/** The same for two turns: one of promptTokens tokens, and the next, with one token of the answer and newTokens more. */
export function twoTurnsPool(
  promptTokens: number,
  newTokens: number,
  options: Parameters<typeof pairPool>[1],
): number | null {
  const first = pairPool(promptTokens, options);
  const next = pairPool(promptTokens + 1 + newTokens, options);
  return first === null || next === null ? null : Math.min(first, next);
}

/** Whether some layers have sliding windows, so that blocks leave them. */
export const hasWindows = ({
  allFullKv,
  kvCacheGroups,
}: Pick<ClusterOptions, 'allFullKv' | 'kvCacheGroups'>): boolean =>
  allFullKv !== true && (kvCacheGroups ?? []).some(({ kind }) => kind === 'sliding');

/** A store has a prompt's blocks once P has computed them, so without NIXL D is asked only then. */
export const handoverOf = ({
  connector,
  handover,
}: Pick<ClusterOptions, 'connector' | 'handover'>): Handover => (usesNixl(connector) ? handover : 'pull');

/** Each life of a seat has its own id, so that nothing that names the previous engine is taken for the new one. */
export const engineIdOf = ({ name }: Pick<Seat, 'name'>, life: number): string =>
  life === 1 ? name : `${name}.${life}`;

/**
 * Everything that an engine is started with, except what is read from the model's files. `life`: counts the engines
 * that this seat has had, from 1.
 */
export function engineStart(options: ClusterOptions, seat: Seat, life: number, mode: Mode): EngineStart {
  return {
    core: engineCore(options, seat, engineIdOf(seat, life), mode),
    model: { name: options.model, weightSeed: options.weightSeed, weightDtype: options.weightDtype },
    layout: options.layout,
    driverThreads: driverThreads(options, seat),
    kernels: kernelSet(options, seat),
    compileOrder: seat.index % 2 === 0 ? 'forwards' : 'backwards',
    link: options.link,
    checksum: options.checksum,
    silenceMs: options.silenceMs ?? SILENCE_MS,
    checkpoint: null,
    sharedWeights: null,
    gemm: options.gemm?.choice ?? null,
    arithmetic: unmeasured(options.arithmetic),
    keepLogits: options.keepLogits,
    poison: options.poison,
    fault: faultOf(options.fault, seat.role),
  };
}

function kernelSet({ decodeKernels = 'one row' }: ClusterOptions, { role, combined }: Seat): KernelSet {
  if (combined) return 'all';
  return role === 'prefill' ? 'prompts' : decodeKernels;
}

/** null: all engines' drivers are alike. */
function driverThreads({ decodeDriverThreads = true }: ClusterOptions, seat: Seat): boolean | null {
  return decodeDriverThreads ? null : seat.role === 'prefill' || seat.combined;
}

/** What an engine's policy is built from. */
export function engineCore(
  options: ClusterOptions,
  seat: Seat,
  engineId: string,
  mode: Mode,
): EngineCoreConfig {
  const { numBlocks, enablePrefixCaching } = poolOf(options, seat);
  return {
    engineId,
    host: 'localhost',
    port: SIDE_CHANNEL_PORT + seat.index,
    cache: {
      blockSize: options.blockSize,
      numBlocks,
      enablePrefixCaching,
      hashSeed: HASH_SEED,
      kvDtype: options.kvDtype,
      // The engine fills these in from the model that it loads.
      groups: [],
      allFullKv: options.allFullKv ?? false,
      ...(options.kvCacheMetricsSample ? { metricsSample: options.kvCacheMetricsSample } : {}),
    },
    scheduler: {
      maxNumBatchedTokens: options.maxNumBatchedTokens,
      maxNumSeqs: options.maxNumSeqs,
      maxModelLen: options.maxModelLen,
    },
    // Object.assign instead of spread: spread would give each engine's object its own hidden class, and every step
    // would read it more slowly.
    connector: Object.assign({}, options.connector, {
      nixl: Object.assign({}, options.connector.nixl, { bidirectional: mode === 'bidirectional' }),
    }),
    // Also filled in by the engine.
    eosTokenIds: [],
    vocabSize: null,
  };
}

/** A flipped bit in the slab is injected at the holder; all other faults where the reader writes. */
function faultOf(fault: ClusterOptions['fault'], role: EngineRole): EngineStart['fault'] {
  if (!fault) return null;
  const atReader = fault.kind !== 'flip-bit';
  return (fault.engine === role) === atReader ? fault.kind : null;
}

/** All that a change can name. */
const CHANGEABLE: Readonly<Record<keyof PolicyChange, true>> = {
  mode: true,
  recomputeThreshold: true,
  prefixCaching: true,
  prefillBlocks: true,
  decodeBlocks: true,
  tokenCheck: true,
  allFullKv: true,
  loadFailurePolicy: true,
  decoderTtlMs: true,
  drain: true,
  link: true,
  handover: true,
  routing: true,
  signalAgeMs: true,
  connector: true,
  costProfile: true,
};

const WORDS = { mode: MODES, handover: HANDOVERS, loadFailurePolicy: LOAD_FAILURE_POLICIES } as const;
const NUMBERS = {
  recomputeThreshold: 'tokens',
  decoderTtlMs: 'milliseconds',
  signalAgeMs: 'milliseconds',
} as const;

const isRecord = (value: unknown): boolean => typeof value === 'object' && value !== null;

/** Checked at run time because an untyped program could otherwise measure a mode other than the one it names. */
function checkValues(change: PolicyChange): void {
  const known = Object.keys(CHANGEABLE);
  const unknown = Object.keys(change).find((key) => !known.includes(key));
  if (unknown !== undefined)
    throw new ConfigError(
      `configure() changes no setting '${unknown}': wanted some of ${known.join(', ')}${didYouMean(unknown, known)}`,
    );
  for (const [key, words] of Object.entries(WORDS)) {
    const value: string | undefined = change[key as keyof typeof WORDS];
    if (value !== undefined && !(words as readonly string[]).includes(value))
      throw new ConfigError(`there is no ${key} '${value}': wanted one of ${words.join(', ')}`);
  }
  for (const [key, unit] of Object.entries(NUMBERS)) {
    const value = change[key as keyof typeof NUMBERS];
    if (value !== undefined && !(value >= 0))
      throw new ConfigError(`${key} is ${value}: wanted ${unit}, 0 or more`);
  }
  const { routing, drain } = change;
  if (drain !== undefined) checkRule(drain);
  // createCluster takes a routing's name, and its parameters apart from it.
  if (routing !== undefined && !(typeof routing?.name === 'string' && isRecord(routing.parameters)))
    throw new ConfigError(
      `the routing is ${JSON.stringify(routing)}: wanted a name and parameters, such as {"name": "llm-d", "parameters": {}}`,
    );
}

/**
 * The options with the change applied. Throws ConfigError if a pool would exceed its memory, a store is missing, or a
 * value is invalid.
 */
export function changed(
  options: ClusterOptions,
  atStart: ClusterOptions,
  change: PolicyChange,
): ClusterOptions {
  const { nixl } = options.connector;
  checkValues(change);
  const { mode = options.mode, link = options.link } = change;
  // createCluster takes a link's name; here a name would slow nothing down.
  if (link && !(link.bytesPerSecond > 0 && link.latencyMs >= 0))
    throw new ConfigError(
      `the link is ${JSON.stringify(link)}: wanted null, or bytes per second and latency, such as {"name": "10gbe", "bytesPerSecond": 1.25e9, "latencyMs": 0.02}`,
    );
  const pool = (role: EngineRole, blocks: number): number => {
    const room = atStart[role].numBlocks;
    if (Number.isInteger(blocks) && blocks >= 2 && blocks <= room) return blocks;
    throw new ConfigError(
      `${role} was started with ${room} KV blocks and cannot use ${blocks}: give 2 to ${room}, or start with more`,
    );
  };
  if (change.connector && usesStore(change.connector) && !atStart.store)
    throw new ConfigError(
      `${change.connector.name} needs a store, but the cluster was started without one: start it with a store`,
    );
  return {
    ...options,
    mode,
    link,
    handover: change.handover ?? options.handover,
    ...(change.allFullKv === undefined ? {} : { allFullKv: change.allFullKv }),
    ...(change.routing ? { routing: change.routing } : {}),
    ...(change.drain ? { drain: change.drain } : {}),
    ...(change.signalAgeMs === undefined ? {} : { signalAgeMs: change.signalAgeMs }),
    prefill: {
      ...options.prefill,
      numBlocks: pool('prefill', change.prefillBlocks ?? options.prefill.numBlocks),
      enablePrefixCaching: change.prefixCaching ?? options.prefill.enablePrefixCaching,
    },
    decode: {
      ...options.decode,
      numBlocks: pool('decode', change.decodeBlocks ?? options.decode.numBlocks),
    },
    connector: {
      ...options.connector,
      ...change.connector,
      loadFailurePolicy: change.loadFailurePolicy ?? options.connector.loadFailurePolicy,
      nixl: {
        ...nixl,
        recomputeThreshold: change.recomputeThreshold ?? nixl.recomputeThreshold,
        tokenCheck: change.tokenCheck ?? nixl.tokenCheck,
        costProfile: change.costProfile === undefined ? (nixl.costProfile ?? null) : change.costProfile,
        decoderTtlMs: change.decoderTtlMs ?? nixl.decoderTtlMs,
      },
    },
  };
}
