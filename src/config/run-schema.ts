/**
 * Every user setting, defined once. Command-line options (kebab-case), config-file keys (camelCase), URL parameters and
 * HTTP body fields all come from this strict schema. Where vLLM has the same setting, the name, meaning and default are
 * vLLM's. Rules that involve several settings are in run.ts.
 */
import { z } from 'zod';
import { ARITHMETICS } from './arithmetic.ts';
import { scaling } from './autoscale.ts';
import { bench, endpoint, measuring, slo, ways } from './bench-schema.ts';
import { cluster } from './cluster-schema.ts';
import {
  anyNumber,
  countFrom0,
  type FieldMeta,
  flag,
  listOf,
  oneOf,
  positive,
  text,
  wholeNumber,
  wholeNumbers,
} from './fields.ts';
import { type FleetFileInput, fleet } from './fleet-schema.ts';
import { MODES, RUN_MODES } from './modes.ts';
import { planning } from './plan-schema.ts';
import { explaining, routing } from './routing.ts';
import { serving } from './serve-schema.ts';
import { modelling, simulation } from './simulate-schema.ts';
import { store } from './store-schema.ts';
import { withoutPassword } from './store-url.ts';
import { audit, calibration, costs, sweep } from './sweep-schema.ts';
import { pacing, trace } from './trace-schema.ts';
import { traceFile, tracing } from './tracing.ts';

/** The model and what it runs on. */
const machine = {
  model: text('a preset or a directory').default('recall').meta({
    description:
      'A preset (recall, nano, tiny, tiny-hybrid, small, smollm2-135m, gemma-3-270m, qwen2.5-0.5b, gemma-3-1b, llama-3.2-1b) or a Hugging Face directory. recall is trained; the other presets have random weights drawn from --seed.',
    value: 'PRESET|DIR',
  }),
  adapter: text("auto, gpu, lavapipe, swiftshader or part of an adapter's name").default('auto').meta({
    description:
      'auto picks a real GPU, else lavapipe, else SwiftShader. Or name one: gpu, lavapipe, swiftshader, or part of an adapter name.',
    value: 'NAME',
  }),
  autotune: oneOf(['auto', 'on', 'off', 'again']).default('auto').meta({
    description:
      'Measure once, before the first start, which variants of the matrix kernel are fastest, and remember them in the user cache folder. Does not change results. auto: on GPUs only. again: measure again.',
    value: 'auto|on|off|again',
  }),
  decodeDriverThreads: oneOf(['auto', 'on', 'off']).default('auto').meta({
    description:
      'Whether lavapipe uses its own threads in D. Without them, decode steps of small models are faster and prefill is slower. P always uses them. auto: off for models with less than 400 KB of weights per kernel, unless D prefills in one of the modes (monolithic, decode-local).',
    value: 'auto|on|off',
  }),
  kvDtype: oneOf(['f16', 'f32'])
    .default('f16')
    .meta({ description: 'Data type of the KV cache.', value: 'f16|f32' }),
  weightDtype: oneOf(['f16', 'f32'])
    .default('f16')
    .meta({ description: 'Data type of the weights in memory. Sums are always f32.', value: 'f16|f32' }),
  arithmetic: oneOf([...ARITHMETICS, 'auto'])
    .default('f32')
    .meta({
      description:
        'Precision of matrix products in all engines. Sums are always f32. f16 needs shader-f16 and rounds differently, so logits differ from f32. auto: f16 where --autotune finds it faster.',
      value: 'f32|f16|auto',
    }),
  seed: wholeNumber('a whole number from 0 to 4294967295', { min: 0, max: 0xffff_ffff }).default(0).meta({
    description: "Seed for sampling, random weights and generated conversations. vLLM's default.",
    value: 'N',
  }),
};

const sampling = {
  temperature: anyNumber('a number, 0 or more (0 is greedy)', { min: 0 }).default(0).meta({
    description: "Sampling temperature; 0 is greedy. vLLM's default is 1; 0 here makes runs repeatable.",
    value: 'T',
  }),
  topK: countFrom0('tokens')
    .default(0)
    .meta({ description: "Sample from the N most likely tokens; 0 is all. vLLM's default.", value: 'N' }),
  topP: anyNumber('a number above 0, up to 1', { above: 0, max: 1 }).default(1).meta({
    description: "Sample from the most likely tokens whose probabilities add up to P. vLLM's default.",
    value: 'P',
  }),
  maxTokens: positive('tokens').default(128).meta({
    description: "Longest answer in a text conversation. vLLM's default is 16; a story needs 80.",
    value: 'TOKENS',
  }),
};

const workload = {
  conversation: text("a file's name, or 'shipped'").nullable().default(null).meta({
    description:
      "OpenAI-style messages: a list, {messages}, or a list of these. The assistant's turns are generated. 'shipped' is the conversation that comes with kvferry. Default: shipped for recall, a generated one for other models.",
    value: 'FILE',
  }),
  turns: positive('turns').default(5).meta({ description: 'Turns of a generated conversation.', value: 'N' }),
  systemTokens: countFrom0('tokens')
    .default(64)
    .meta({ description: 'System prompt length of a generated conversation.', value: 'TOKENS' }),
  userTokens: positive('tokens')
    .default(64)
    .meta({ description: 'User tokens per turn of a generated conversation.', value: 'TOKENS' }),
  outputTokens: positive('tokens')
    .default(128)
    .meta({ description: 'Output tokens per turn of a generated conversation.', value: 'TOKENS' }),
  conversations: positive('conversations')
    .default(1)
    .meta({ description: 'How many conversations to generate.', value: 'N' }),
  concurrency: positive('conversations')
    .default(1)
    .meta({ description: 'Conversations served concurrently.', value: 'N' }),
};

const modes = {
  mode: listOf(MODES)
    .default([...RUN_MODES])
    .meta({
      description: `Comma-separated: ${MODES.join(', ')}. decode-local: D prefills later turns itself.`,
      value: 'MODES',
    }),
};

const checking = {
  check: flag().default(false).meta({
    description:
      'calibrate: afterwards, serve a mixed workload under each policy (always, never, --threshold, cost-aware) in alternating rounds, and compare. simulate: check every invariant after every event, and run everything twice to confirm identical results. Slow.',
    value: null,
  }),
};

const faults = {
  faults: wholeNumber('a whole number of faults, 1 or more', { min: 1 }).nullable().default(null).meta({
    description:
      'Inject N faults, drawn from --seed. verify: instead of the checks, into engines that serve model nano; answers must stay correct and nothing may leak. simulate: into the fleet while it serves; dead engines are replaced.',
    value: 'N',
  }),
};

const verify = {
  faultPairs: wholeNumber('1 to 8', { min: 1, max: 8 }).default(1).meta({
    description:
      'verify --faults: the number of P and of D. With 2 or more, engines are also scaled down; a failure is harder to repeat.',
    value: 'N',
  }),
  faultPicks: wholeNumbers('numbers from 1 to 4 with commas between', { min: 1, max: 4 })
    .nullable()
    .default(null)
    .meta({
      description:
        'verify --faults: inject only these of the four faults of each episode, as given in a failure report.',
      value: 'NUMBERS',
    }),
  fixture: text('a directory').nullable().default(null).meta({
    description: 'Also check logits and KV against DIR/expected.safetensors.',
    value: 'DIR',
  }),
};

/** Report files for people to read. */
const pages = {
  html: text('a file').nullable().default(null).meta({
    description: 'Write the report as one HTML page with charts; it works offline.',
    value: 'FILE',
  }),
  markdown: text('a file').nullable().default(null).meta({
    description: "Write the report as Markdown, for example for a CI job's summary.",
    value: 'FILE',
  }),
};

const junit = {
  junit: text('a file').nullable().default(null).meta({
    description: "Write the checks (assertions and the command's own) as JUnit XML.",
    value: 'FILE',
  }),
};

const wantedAssertion = "a comparison, such as 'comparison.tokens_identical == true'";

const asserting = {
  assert: z
    .preprocess(
      (value) => (typeof value === 'string' ? [value] : value),
      z.array(z.string({ error: wantedAssertion }).min(1, wantedAssertion), { error: wantedAssertion }),
    )
    .default([])
    .meta({
      description:
        "A condition on the JSON report, such as 'comparison.tokens_identical == true'. May be repeated. Exit code 3 if one fails.",
      value: 'EXPR',
      repeatable: true,
    }),
};

const comparing = {
  baseline: text('a file').nullable().default(null).meta({
    description:
      'An earlier JSON report of the same command. Shows what changed by more than noise; --assert can use it (baseline.…).',
    value: 'FILE',
  }),
};

const recording = {
  record: text('the name of a file').nullable().default(null).meta({
    description: 'Record every event to FILE, to replay in the demo page (npm run demo, Load recording).',
    value: 'FILE',
  }),
};

const wantedJson = 'true, false or the name of a file';

const general = {
  json: z
    .preprocess(
      (value) => (value === 'true' ? true : value === 'false' ? false : value),
      z.union([z.boolean(), z.string().min(1, wantedJson)], { error: wantedJson }),
    )
    .default(false)
    .meta({
      description: 'Write the report as JSON to FILE, or to stdout (tables then go to stderr).',
      value: 'FILE',
      valueOptional: true,
    }),
  debug: flag().default(false).meta({ description: 'Show stack traces.', value: null }),
};

/** Settings by group. Help prints each group under a heading; a command accepts whole groups. */
const fieldGroups = {
  machine,
  fleet,
  cluster,
  store,
  routing,
  sampling,
  modes,
  workload,
  trace,
  pacing,
  measuring,
  bench,
  ways,
  slo,
  planning,
  modelling,
  simulation,
  endpoint,
  sweep,
  serving,
  scaling,
  calibration,
  costs,
  audit,
  checking,
  faults,
  verify,
  pages,
  junit,
  asserting,
  comparing,
  recording,
  traceFile,
  tracing,
  explaining,
  general,
} as const;

export type FieldGroup = keyof typeof fieldGroups;

type All<Groups> = (Groups extends unknown ? (group: Groups) => void : never) extends (all: infer A) => void
  ? A
  : never;

/** All user settings with their defaults. Strict: an unknown key is an error. */
export const runConfigSchema = z.strictObject(
  Object.assign({}, ...Object.values(fieldGroups)) as All<(typeof fieldGroups)[FieldGroup]>,
);

export type RunConfig = Readonly<z.infer<typeof runConfigSchema>>;
export type RunKey = keyof RunConfig;

/** Settings that only control output. Reports omit them, and baselines do not compare them. */
const outputKeys = new Set([
  'csv',
  ...[pages, junit, asserting, comparing, recording, traceFile, tracing, explaining, general].flatMap(
    (group) => Object.keys(group),
  ),
]);

/** Whether the setting can change what is served or measured. True for unknown keys. */
export const changesResults = (key: string): boolean => !outputKeys.has(key);

/** Never shown in a report, log or message. */
export const SECRET_KEYS: ReadonlySet<string> = new Set([
  'apiKey',
  'adminKey',
  'storeUrl',
] satisfies RunKey[]);

/** The settings as reports show them: without API keys and passwords, which a shared config file may contain. */
export const reportedSettings = (config: RunConfig): RunConfig => ({
  ...config,
  apiKey: null,
  adminKey: null,
  storeUrl: config.storeUrl && withoutPassword(config.storeUrl),
});

/** A partial configuration, as callers pass it. */
export type RunConfigInput = {
  readonly [K in RunKey]?: (K extends 'fleet' ? FleetFileInput | null : OneOrMore<RunConfig[K]>) | undefined;
};

/** A list with one value may be given as that value. */
type OneOrMore<T> = T extends readonly (infer Each)[] ? Each | readonly Each[] : T;

export const runKeys = Object.keys(runConfigSchema.shape) as readonly RunKey[];

/** A setting's help text and group. */
export function fieldMeta(key: RunKey): FieldMeta & { group: FieldGroup } {
  const groups = Object.keys(fieldGroups) as FieldGroup[];
  const group = groups.find((name) => key in fieldGroups[name])!;
  return { ...(runConfigSchema.shape[key].meta() as unknown as FieldMeta), group };
}

/** All keys of these groups, with some exceptions. */
export const keysOf = (groups: readonly FieldGroup[], ...except: readonly RunKey[]): RunKey[] =>
  runKeys.filter((key) => groups.includes(fieldMeta(key).group) && !except.includes(key));
