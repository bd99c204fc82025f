/**
 * Options that would have no effect in combination with the others that were given: each is refused by name. Applies to
 * the command line only, because several commands may share a config file.
 */
import { readsFromPeers } from '../../config/kv-transfer.ts';
import { routingNames, routingParts } from '../../config/routing.ts';
import { isUnusual, keysOf, type RunConfig, type RunKey, switchName } from '../../config/run.ts';
import type { TraceFormat } from '../../config/trace-formats.ts';
import { ConfigError } from '../../errors.ts';

export interface Unused {
  keys: readonly RunKey[];
  /** Completes '--x has no effect …': in which situation, and why. */
  why: string;
}

/** The given options that differ from their defaults. */
export const unusualOptions = (given: readonly string[], config: RunConfig): ReadonlySet<RunKey> =>
  new Set((given as RunKey[]).filter((key) => isUnusual(key, config)));

/** Throws ConfigError for the first given option that a rule covers. */
export function refuseUnused(given: ReadonlySet<RunKey>, rules: readonly (Unused | false)[]): void {
  for (const rule of rules) {
    if (!rule) continue;
    const key = rule.keys.find((each) => given.has(each));
    if (key)
      throw new ConfigError(
        `${switchName(key)} has no effect ${rule.why}${rule.why.endsWith(', or') ? '' : ';'} leave it out`,
      );
  }
}

/** For commands that route by --routing alone; a server's clients may name any policy. Throws ConfigError. */
export async function refuseUnusedRouting(
  given: ReadonlySet<RunKey>,
  { routing, routingConfig, autoscale }: RunConfig,
): Promise<void> {
  const names = routing.flatMap((choice) => routingParts(choice).map(({ name }) => name));
  const others = Object.keys(routingConfig ?? {});
  // A file may have parameters for many policies. A name that no policy has is refused where policies are made.
  const idle =
    others.length > 0 && !others.some((name) => names.includes(name) || !routingNames().includes(name));
  const why = `with --routing ${routing.join(',')}`;
  const rules: (Unused | false)[] = [
    idle && { keys: ['routingConfig'], why: `${why}: its parameters are for ${others.join(', ')}` },
  ];
  if (given.has('signalAge') && autoscale === null) {
    const { reportsNeeded } = await import('../../router/policies/registry.ts');
    const needs = routing.map((name) => reportsNeeded({ name }));
    const seen = needs.some(({ load, cache }) => load || cache);
    rules.push(
      !seen && { keys: ['signalAge'], why: `${why}, which looks at neither load nor caches of the engines` },
    );
  }
  refuseUnused(given, rules);
}

/** Settings of the benchmark's clients. An open-loop load has no clients. */
const OF_CLIENTS: readonly RunKey[] = [
  ...(['numClients', 'maxActiveConversations', 'maxNumRequests', 'maxTurns', 'requestRate'] as const),
  ...(['conversationSampling', 'warmupStep', 'earlyStop', 'limitMinTokens', 'limitMaxTokens'] as const),
];
/** Settings of real devices. They do not change a simulation. */
export const OF_DEVICES: readonly RunKey[] = [
  ...(['adapter', 'autotune', 'decodeDriverThreads', 'weightDtype', 'arithmetic', 'layout'] as const),
];

const OF_DRAINS: readonly RunKey[] = ['drain', 'drainTimeout'];

const ofTrace = ({ trace }: RunConfig): Unused | false =>
  trace === null && { keys: keysOf(['trace']), why: 'without a trace: give --trace FILE too, or' };

/** Settings for traces without times, refused for a trace that has times. */
export const ofTimes = (format: TraceFormat): Unused | false =>
  format !== 'conversations' && {
    keys: ['conversationRate', 'thinkTime'],
    why: `on a ${format} trace, which contains its own arrival times`,
  };

const ofWorkload = ({ trace }: RunConfig): Unused | false =>
  trace !== null && {
    keys: ['preset', 'scale', ...OF_CLIENTS],
    why: 'with --trace, which contains its own requests and times (--limit, --trace-scale and --speed-up change them)',
  };

const ofStore = (stored: boolean): Unused | false =>
  !stored && {
    keys: ['storeDir', 'storeUrl', 'storeEviction', 'storePlace', 'offloadPromptOnly'],
    why: 'without a store: give --store BYTES too, or',
  };

/** Links of single pairs of engines do not reach the store. */
const ofStorePlace = ({ link, storePlace }: RunConfig): Unused | false =>
  link === null &&
  storePlace === 'remote' && {
    keys: ['storePlace'],
    why: 'without --link, which it places in front of the store: give --link LINK too, or',
  };

/** Goodput is only reported when several policies are compared. */
const ofPolicies = ({ routing }: RunConfig): Unused | false =>
  routing.length === 1 && {
    keys: keysOf(['slo']),
    why: 'with a single policy, because goodput is only used to compare policies: name several in --routing, or',
  };

/** `except`: keys that also apply when the fleet is scaled by other means. */
const ofAutoscaler = ({ autoscale }: RunConfig, ...except: readonly RunKey[]): Unused | false =>
  autoscale === null && {
    keys: keysOf(['scaling'], 'autoscale', ...except),
    why: 'on a fleet of fixed size: give --autoscale NAME too, or',
  };

const ofCosts = ({ pullPolicy }: RunConfig): Unused | false =>
  pullPolicy === 'cost-aware' && {
    keys: ['threshold'],
    why: 'with --pull-policy cost-aware, which decides by predicted costs',
  };

/** Settings of the KV that engines hold for each other and read from each other. */
const ofPeers = (config: RunConfig): Unused | false =>
  !readsFromPeers(config) && {
    keys: ['threshold', 'ttl', 'lease', 'handover', 'tokenCheck', 'audit', 'pullPolicy'],
    why: 'with this --kv-transfer-config, whose connector moves KV through the store only',
  };

const ofLinks = ({ link, fleet }: RunConfig): Unused | false => {
  const linked = link ?? fleet?.sameNode ?? fleet?.acrossNodes ?? fleet?.links[0] ?? null;
  return (
    linked === null && { keys: ['linkSharing'], why: 'without a modelled link: give --link LINK too, or' }
  );
};

const WARM_UPS: readonly RunKey[] = ['warmupPercentages'];
const warmUps: Unused = {
  keys: WARM_UPS,
  why: 'without warm-up: only kvferry bench prints its tables',
};

export const unusedBySimulate = (config: RunConfig): readonly (Unused | false)[] => [
  ofTrace(config),
  ofWorkload(config),
  config.trace !== null &&
    String(config.experiments) !== 'prefix-caching' && {
      keys: ['experiments'],
      why: "with --trace: set P's cache with --no-prefix-caching and --p-blocks",
    },
  config.arrivalRate !== null && {
    keys: OF_CLIENTS,
    why: 'with --arrival-rate, where conversations arrive on their own',
  },
  warmUps,
  !config.validate && {
    keys: [...OF_DEVICES, 'rounds'],
    why: 'in a simulation without --validate, which starts no engine and serves nothing twice',
  },
  config.validate && {
    keys: [
      ...(['costs', 'seeds', 'jobs', 'against', 'startUp', 'kvBytesPerToken', 'sloTtft', 'sloTpot'] as const),
      ...(['html', 'markdown', 'traceOut'] as const),
    ],
    why: 'with --validate, which measures its own costs and only compares with the engines here',
  },
  {
    keys: ['explainScaling'],
    why: 'in a simulation, whose report contains every decision that changed something',
  },
  // Faults scale engines down as well.
  ofAutoscaler(config, ...OF_DRAINS),
  config.autoscale === null &&
    config.faults === null && {
      keys: ['startUp', ...OF_DRAINS],
      why: 'where no engine joins or leaves: give --autoscale NAME or --faults N too, or',
    },
  ofStore(config.store !== null),
  ofStorePlace(config),
  ofPeers(config),
  ofCosts(config),
  ofLinks(config),
];

/** Settings that a plan always refuses; it has its own checks for the first two. */
export const NEVER_OF_PLAN: readonly RunKey[] = [
  'budget',
  'experiments',
  ...OF_CLIENTS,
  ...WARM_UPS,
  ...OF_DEVICES,
];

/** `stored`: some candidates have a store. */
export const unusedByPlan = (config: RunConfig, stored: boolean): readonly (Unused | false)[] => [
  ofTrace(config),
  ofWorkload(config),
  { keys: OF_CLIENTS, why: 'in a plan: requests arrive at a fixed --rate' },
  warmUps,
  { keys: OF_DEVICES, why: 'in a plan, which starts no engine' },
  // Repeating the same requests would count as independent samples and overstate the confidence of shares.
  config.trace !== null && {
    keys: ['seeds'],
    why: 'in a plan with --trace, whose requests are not random: give a longer --sample, or',
  },
  ofStore(stored),
  ofStorePlace(config),
  ofPeers(config),
  ofLinks(config),
];

/** Rules for all commands that start engines. */
const unusedByEngines = (config: RunConfig): readonly (Unused | false)[] => [
  ofStore(config.store !== null),
  // The paths are compared over links of their own.
  config.paths === null && ofStorePlace(config),
  ofPeers(config),
  ofCosts(config),
];

export const unusedByRun = (config: RunConfig): readonly (Unused | false)[] => [
  config.conversation === null && {
    keys: ['maxTokens'],
    why: 'on a generated conversation, whose answers all have --output-tokens tokens',
  },
  !config.mode.includes('bidirectional') && {
    keys: ['audit'],
    why: 'if nothing is pulled: add bidirectional to --mode, or',
  },
  ...unusedByEngines(config),
];

/** The workload is one of: a preset or a file of the benchmark, a text conversation, a generated one. */
export const unusedByVllmExport = (config: RunConfig): readonly (Unused | false)[] => {
  const benchmarks = config.preset !== null || config.inputFile !== null;
  return [
    benchmarks && {
      keys: keysOf(['workload'], 'concurrency'),
      why: 'with --preset or --input-file, which is the workload',
    },
    (benchmarks || config.conversation === null) && {
      keys: ['maxTokens'],
      why: 'on a workload that sets the length of its answers',
    },
    !benchmarks &&
      config.conversation !== null && {
        keys: ['scale'],
        why: 'on a text conversation, whose lengths cannot be divided',
      },
  ];
};

export const unusedByCalibrate = (config: RunConfig): readonly (Unused | false)[] => [
  config.fromReport !== null && {
    keys: keysOf(['machine', 'cluster', 'store', 'measuring', 'checking', 'pages']),
    why: 'with --from-report, which starts no engine and measures nothing',
  },
  config.fromReport !== null && {
    keys: keysOf(['fleet'], 'decode', 'fleet'),
    why: 'with --from-report, which only needs the number of D (--decode)',
  },
  ...unusedByEngines(config),
];

export const unusedByServe = (config: RunConfig): readonly (Unused | false)[] => [
  ...unusedByEngines(config),
  // POST /fleet/scale drains as well.
  ofAutoscaler(config, ...OF_DRAINS),
  !config.kvCacheMetrics && {
    keys: ['kvCacheMetricsSample'],
    why: 'without KV cache metrics: give --kv-cache-metrics too, or',
  },
];

export const unusedByVerify = ({ faults, model }: RunConfig): readonly (Unused | false)[] => [
  faults !== null && model !== 'nano' && { keys: ['model'], why: 'with --faults, which always uses nano' },
  faults === null && { keys: ['faultPairs'], why: 'without faults: give --faults N too, or' },
];

const HOW_TO_SAMPLE: readonly RunKey[] = ['temperature', 'topK', 'topP'];
export const NEVER_OF_REPLAY: readonly RunKey[] = ['maxTokens', ...HOW_TO_SAMPLE];

export const unusedByReplay = (config: RunConfig): readonly (Unused | false)[] => [
  { keys: ['maxTokens'], why: 'on a trace, which sets the length of its answers' },
  { keys: HOW_TO_SAMPLE, why: 'on a trace, which contains its answers' },
  ofPolicies(config),
  ...unusedByEngines(config),
];

export const unusedByBench = (config: RunConfig): readonly (Unused | false)[] => {
  const remote = config.endpoint !== null || config.url !== null;
  return [
    remote && {
      keys: [
        ...keysOf(['modes', 'machine', 'fleet', 'cluster', 'store', 'routing'], 'model', 'seed'),
        ...keysOf(['explaining', 'costs', 'slo']),
        ...(['experiments', 'topK', 'topP'] as const),
      ],
      why: 'with --endpoint: the server has its own engines and settings',
    },
    !remote && {
      keys: keysOf(['endpoint'], 'endpoint', 'url'),
      why: 'without a server: give --endpoint URL too, or',
    },
    config.inputFile === null && {
      keys: ['maxTokens'],
      why: 'on a preset, which sets the length of its answers',
    },
    config.paths !== null && {
      keys: ['mode'],
      why: 'with --paths, which are compared instead of modes',
    },
    ofPolicies(config),
    ...unusedByEngines(config),
  ];
};
