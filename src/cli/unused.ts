/**
 * Options that a command would take and then not use, because of what else was given: each is refused by name. Only what
 * stands on the command line: a config file may be shared by several commands.
 */
import {
  type FieldGroup,
  fieldMeta,
  isUnusual,
  type RunConfig,
  type RunKey,
  runKeys,
  switchName,
} from '../config/run.ts';
import type { TraceFormat } from '../config/trace-formats.ts';
import { ConfigError } from '../errors.ts';

export interface Unused {
  keys: readonly RunKey[];
  /** Completes '--x is of no use …': beside what, and why. */
  why: string;
}

/** Of the options given those that ask for something else than what goes without saying. */
export const unusualOptions = (given: readonly string[], config: RunConfig): ReadonlySet<RunKey> =>
  new Set((given as RunKey[]).filter((key) => isUnusual(key, config)));

/** Throws ConfigError that names the first that is among them. */
export function refuseUnused(given: ReadonlySet<RunKey>, rules: readonly (Unused | false)[]): void {
  for (const rule of rules) {
    if (!rule) continue;
    const key = rule.keys.find((each) => given.has(each));
    if (key)
      throw new ConfigError(
        `${switchName(key)} is of no use ${rule.why}${rule.why.endsWith(', or') ? '' : ';'} leave it out`,
      );
  }
}

/** All of those groups, but for some. */
export const keysOf = (groups: readonly FieldGroup[], ...except: readonly RunKey[]): RunKey[] =>
  runKeys.filter((key) => groups.includes(fieldMeta(key).group) && !except.includes(key));

/** How the benchmark's clients ask: a load that comes by itself has none. */
const OF_CLIENTS: readonly RunKey[] = [
  ...(['numClients', 'maxActiveConversations', 'maxNumRequests', 'maxTurns', 'requestRate'] as const),
  ...(['conversationSampling', 'warmupStep', 'earlyStop', 'limitMinTokens', 'limitMaxTokens'] as const),
];
/** Of real devices, which change no modelled time and no count. */
export const OF_DEVICES: readonly RunKey[] = [
  ...(['adapter', 'autotune', 'decodeDriverThreads', 'weightDtype', 'arithmetic', 'layout'] as const),
];

const ofTrace = ({ trace }: RunConfig): Unused | false =>
  trace === null && { keys: keysOf(['trace']), why: 'without a trace: give --trace FILE too, or' };

/** Of a trace that is open: what is for those without times of their own. */
export const ofTimes = (format: TraceFormat): Unused | false =>
  format !== 'conversations' && {
    keys: ['conversationRate', 'thinkTime'],
    why: `to a trace of ${format}, which says itself when requests come`,
  };

const ofWorkload = ({ trace }: RunConfig): Unused | false =>
  trace !== null && {
    keys: ['preset', 'scale', ...OF_CLIENTS],
    why: 'with --trace, which says itself who asks what and when (--limit, --trace-scale and --speed-up change that)',
  };

const ofStore = (stored: boolean): Unused | false =>
  !stored && {
    keys: ['storeDir', 'storeUrl', 'storeEviction', 'storePlace', 'offloadPromptOnly'],
    why: 'without a store: give --store BYTES too, or',
  };

/** Goodput is told of policies. */
const ofPolicies = ({ routing }: RunConfig): Unused | false =>
  routing.length === 1 && {
    keys: keysOf(['slo']),
    why: 'with one policy, as goodput is what policies are compared by: name several in --routing, or',
  };

/** `except`: keys of a fleet that changes by other means too. */
const ofAutoscaler = ({ autoscale }: RunConfig, ...except: readonly RunKey[]): Unused | false =>
  autoscale === null && {
    keys: keysOf(['scaling'], 'autoscale', ...except),
    why: 'to a fleet that stays as it is: give --autoscale NAME too, or',
  };

const ofCosts = ({ pullPolicy }: RunConfig): Unused | false =>
  pullPolicy === 'cost-aware' && {
    keys: ['threshold'],
    why: 'with --pull-policy cost-aware, which decides by what is predicted',
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
  why: 'where nothing is warmed up: its tables are those of kvferry bench',
};

export const unusedBySimulate = (config: RunConfig): readonly (Unused | false)[] => [
  ofTrace(config),
  ofWorkload(config),
  config.trace !== null &&
    String(config.experiments) !== 'prefix-caching' && {
      keys: ['experiments'],
      why: 'with --trace: P keeps its KV unless --no-prefix-caching is given, in a pool of --p-blocks',
    },
  config.arrivalRate !== null && {
    keys: OF_CLIENTS,
    why: 'with --arrival-rate, by which whole conversations come by themselves',
  },
  warmUps,
  !config.validate && {
    keys: [...OF_DEVICES, 'rounds'],
    why: 'to a simulation without --validate, which starts no engine and serves nothing twice',
  },
  config.validate && {
    keys: [
      ...(['costs', 'seeds', 'jobs', 'against', 'startUp', 'kvBytesPerToken', 'sloTtft', 'sloTpot'] as const),
      ...(['html', 'markdown', 'traceOut'] as const),
    ],
    why: 'with --validate, which measures its own costs and compares with the engines here alone',
  },
  { keys: ['explainScaling'], why: 'to a simulation, whose report has each decision that changed something' },
  ofAutoscaler(config),
  config.autoscale === null &&
    config.faults === null && {
      keys: ['startUp'],
      why: "where no engine joins or takes another's place: give --autoscale NAME or --faults N too, or",
    },
  ofStore(config.store !== null),
  ofCosts(config),
  ofLinks(config),
];

/** Of a plan's groups, whatever else is given; the first two by checks of its own. */
export const NEVER_OF_PLAN: readonly RunKey[] = [
  'budget',
  'experiments',
  ...OF_CLIENTS,
  ...WARM_UPS,
  ...OF_DEVICES,
];

/** `stored`: a store is tried. */
export const unusedByPlan = (config: RunConfig, stored: boolean): readonly (Unused | false)[] => [
  ofTrace(config),
  ofWorkload(config),
  { keys: OF_CLIENTS, why: 'to a plan: requests come at a --rate, whoever waits' },
  warmUps,
  { keys: OF_DEVICES, why: 'to a plan, which starts no engine' },
  // The same requests again would be counted as other draws, and shares told as surer than they are.
  config.trace !== null && {
    keys: ['seeds'],
    why: 'to a plan with --trace, of whose requests nothing is drawn: give a longer --sample, or',
  },
  ofStore(stored),
  ofLinks(config),
];

/** By all commands that start engines. */
const unusedByEngines = (config: RunConfig): readonly (Unused | false)[] => [
  ofStore(config.store !== null),
  ofCosts(config),
];

export const unusedByRun = (config: RunConfig): readonly (Unused | false)[] => [
  config.conversation === null && {
    keys: ['maxTokens'],
    why: 'to a made conversation, whose answers are all as long as --output-tokens says',
  },
  !config.mode.includes('bidirectional') && {
    keys: ['audit'],
    why: 'where nothing is pulled: add bidirectional to --mode, or',
  },
  ...unusedByEngines(config),
];

export const unusedByCalibrate = (config: RunConfig): readonly (Unused | false)[] => [
  config.fromReport !== null && {
    keys: keysOf(['machine', 'cluster', 'store', 'measuring', 'checking', 'pages']),
    why: 'with --from-report, which starts no engine and measures nothing',
  },
  ...unusedByEngines(config),
];

export const unusedByServe = (config: RunConfig): readonly (Unused | false)[] => [
  ...unusedByEngines(config),
  // POST /fleet/scale drains as well.
  ofAutoscaler(config, 'drain', 'drainTimeout'),
  !config.kvCacheMetrics && {
    keys: ['kvCacheMetricsSample'],
    why: 'where no block is followed: give --kv-cache-metrics too, or',
  },
];

export const unusedByVerify = ({ faults, model }: RunConfig): readonly (Unused | false)[] => [
  faults !== null && model !== 'nano' && { keys: ['model'], why: 'with --faults, whose engines have nano' },
];

const HOW_TO_SAMPLE: readonly RunKey[] = ['temperature', 'topK', 'topP'];
export const NEVER_OF_REPLAY: readonly RunKey[] = ['maxTokens', ...HOW_TO_SAMPLE];

export const unusedByReplay = (config: RunConfig): readonly (Unused | false)[] => [
  { keys: ['maxTokens'], why: 'to a trace, which says how long its answers are' },
  { keys: HOW_TO_SAMPLE, why: 'to a trace, whose answers are given' },
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
      why: 'to a preset, which says how long its answers are',
    },
    config.paths !== null && {
      keys: ['mode'],
      why: 'with --paths, which are compared in place of modes',
    },
    ofPolicies(config),
    ...unusedByEngines(config),
  ];
};
