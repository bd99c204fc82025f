/**
 * Every setting of a user, once: the command line's options (kebab-case), the config file's keys (camelCase), a URL's and
 * an HTTP body's fields all come from this one strict schema. Where vLLM has the setting, name, meaning and default are
 * vLLM's. What follows from several settings together is run.ts.
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
import { fleet } from './fleet-schema.ts';
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
      'A preset (recall, nano, tiny, tiny-hybrid, small, smollm2-135m, gemma-3-270m, qwen2.5-0.5b, gemma-3-1b, llama-3.2-1b) or a Hugging Face directory. recall is trained; the other presets have weights from the seed.',
    value: 'PRESET|DIR',
  }),
  adapter: text("auto, gpu, lavapipe, swiftshader or part of an adapter's name").default('auto').meta({
    description:
      'auto takes a real GPU, else lavapipe, else SwiftShader. Or gpu, lavapipe, swiftshader, or part of a name.',
    value: 'NAME',
  }),
  autotune: oneOf(['auto', 'on', 'off', 'again']).default('auto').meta({
    description:
      'Measures once, before the first start, which forms of the matrix kernel are fastest, and keeps that in the user cache folder; no result changes by it. auto: on GPUs. again: measures anew.',
    value: 'auto|on|off|again',
  }),
  decodeDriverThreads: oneOf(['auto', 'on', 'off']).default('auto').meta({
    description:
      'Whether lavapipe computes with threads of its own in D: without, decode steps of small models are quicker and prefill is slower. P always has them. auto: off for models of less than 400 KB of weights a kernel, unless a mode is compared in which D prefills (monolithic, decode-local).',
    value: 'auto|on|off',
  }),
  kvDtype: oneOf(['f16', 'f32'])
    .default('f16')
    .meta({ description: 'What K and V are kept as.', value: 'f16|f32' }),
  weightDtype: oneOf(['f16', 'f32'])
    .default('f16')
    .meta({ description: 'What weights are kept as; sums are f32 always.', value: 'f16|f32' }),
  arithmetic: oneOf([...ARITHMETICS, 'auto'])
    .default('f32')
    .meta({
      description:
        'What all engines compute matrix products in; sums are f32 always. f16 rounds otherwise (other logits than f32) and needs shader-f16. auto: f16 where --autotune measures it to be faster.',
      value: 'f32|f16|auto',
    }),
  seed: wholeNumber('a whole number from 0 to 4294967295', { min: 0, max: 0xffff_ffff }).default(0).meta({
    description: "Seed of sampling, of generated weights and of made conversations. vLLM's default.",
    value: 'N',
  }),
};

const sampling = {
  temperature: anyNumber('a number, 0 or more (0 is greedy)', { min: 0 }).default(0).meta({
    description: 'Sampling temperature; 0 is greedy. vLLM: 1; here 0, so that runs repeat.',
    value: 'T',
  }),
  topK: countFrom0('tokens')
    .default(0)
    .meta({ description: "Samples from so many likeliest tokens; 0 is all. vLLM's default.", value: 'N' }),
  topP: anyNumber('a number above 0, up to 1', { above: 0, max: 1 }).default(1).meta({
    description: "Samples from the likeliest tokens of this summed probability. vLLM's default.",
    value: 'P',
  }),
  maxTokens: positive('tokens').default(128).meta({
    description: 'Tokens of an answer at most, in a conversation of text. vLLM: 16; a story needs 80.',
    value: 'TOKENS',
  }),
};

const workload = {
  conversation: text("a file's name, or 'shipped'").nullable().default(null).meta({
    description:
      "OpenAI-style messages (a list, {messages}, or a list of these); the assistant's turns are generated. Left out: the shipped one for recall, a made one for other models. 'shipped' asks for it by name.",
    value: 'FILE',
  }),
  turns: positive('turns').default(5).meta({ description: 'Turns of a made conversation.', value: 'N' }),
  systemTokens: countFrom0('tokens')
    .default(64)
    .meta({ description: 'Tokens before the first turn of a made conversation.', value: 'TOKENS' }),
  userTokens: positive('tokens')
    .default(64)
    .meta({ description: 'Tokens the user adds each turn of a made conversation.', value: 'TOKENS' }),
  outputTokens: positive('tokens')
    .default(128)
    .meta({ description: 'Tokens generated each turn of a made conversation.', value: 'TOKENS' }),
  conversations: positive('conversations')
    .default(1)
    .meta({ description: 'How many conversations to make.', value: 'N' }),
  concurrency: positive('conversations')
    .default(1)
    .meta({ description: 'Conversations served at the same time.', value: 'N' }),
};

const modes = {
  mode: listOf(MODES)
    .default([...RUN_MODES])
    .meta({
      description: `Comma list of ${MODES.join(', ')}. decode-local: D prefills later turns itself.`,
      value: 'MODES',
    }),
};

const checking = {
  check: flag().default(false).meta({
    description:
      'calibrate: then serve a mixed workload by each policy (always, never, --threshold, cost-aware) in alternating rounds, and compare. simulate: every invariant after every event, and everything twice, which must be the same. Slow.',
    value: null,
  }),
};

const faults = {
  faults: wholeNumber('a whole number of faults, 1 or more', { min: 1 }).nullable().default(null).meta({
    description:
      'So many faults happen, drawn from --seed. verify: instead of the checks, to engines of model nano; answers must stay right and nothing may be left over. simulate: to the fleet while it serves; who dies is replaced.',
    value: 'N',
  }),
};

const verify = {
  faultPicks: wholeNumbers('numbers from 1 to 4 with commas between', { min: 1, max: 4 })
    .nullable()
    .default(null)
    .meta({
      description: 'verify --faults: only these of the four faults of each episode, as a broken one is told.',
      value: 'NUMBERS',
    }),
  fixture: text('a directory').nullable().default(null).meta({
    description: 'Also check logits and KV against expected.safetensors in this directory.',
    value: 'DIR',
  }),
};

/** Files for eyes that a report is written to. */
const pages = {
  html: text('a file').nullable().default(null).meta({
    description: 'Write the report as one page of HTML, with charts; it needs no network.',
    value: 'FILE',
  }),
  markdown: text('a file').nullable().default(null).meta({
    description: "Write the report as Markdown, such as a CI job's summary.",
    value: 'FILE',
  }),
};

const junit = {
  junit: text('a file').nullable().default(null).meta({
    description: 'Write the checks (assertions, equal tokens, integrity) as JUnit XML.',
    value: 'FILE',
  }),
};

const wantedAssertion = "a comparison, such as 'comparison.tokens_identical == true'";

/** What is asked of a report. */
const outputs = {
  assert: z
    .preprocess(
      (value) => (typeof value === 'string' ? [value] : value),
      z.array(z.string({ error: wantedAssertion }).min(1, wantedAssertion), { error: wantedAssertion }),
    )
    .default([])
    .meta({
      description:
        "What must hold of the JSON report, such as 'comparison.tokens_identical == true'. May be repeated; exit code 3 when one fails.",
      value: 'EXPR',
      repeatable: true,
    }),
  baseline: text('a file').nullable().default(null).meta({
    description:
      'An earlier JSON report of the same command: shows what moved beyond noise, and can be asserted on (baseline.…).',
    value: 'FILE',
  }),
};

const recording = {
  record: text('the name of a file').nullable().default(null).meta({
    description: 'Write all that happened to FILE, for the page to replay (npm run demo, Load recording).',
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

/** By the heading under which help shows them; a command takes whole groups. */
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
  outputs,
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

/** What a user can set, with every default. Strict: an unknown key is an error. */
export const runConfigSchema = z.strictObject(
  Object.assign({}, ...Object.values(fieldGroups)) as All<(typeof fieldGroups)[FieldGroup]>,
);

export type RunConfig = Readonly<z.infer<typeof runConfigSchema>>;
export type RunKey = keyof RunConfig;

/** Where results go and what is shown of them. Reports leave these out, and no baseline asks for them. */
const outputKeys = new Set([
  'csv',
  ...[pages, junit, outputs, recording, traceFile, tracing, explaining, general].flatMap((group) =>
    Object.keys(group),
  ),
]);

/** Whether what is served and measured can change by it; what is unknown here may. */
export const changesResults = (key: string): boolean => !outputKeys.has(key);

/** Shown to nobody, in no report, log or message. */
export const SECRET_KEYS: ReadonlySet<string> = new Set([
  'apiKey',
  'adminKey',
  'storeUrl',
] satisfies RunKey[]);

/** The settings as a report shows them to others: without the server's keys and passwords, which a shared config file may hold. */
export const reportedSettings = (config: RunConfig): RunConfig => ({
  ...config,
  apiKey: null,
  adminKey: null,
  storeUrl: config.storeUrl && withoutPassword(config.storeUrl),
});

/** What a caller may give: any part of it. */
export type RunConfigInput = { readonly [K in RunKey]?: RunConfig[K] | undefined };

export const runKeys = Object.keys(runConfigSchema.shape) as readonly RunKey[];

/** Help's text and heading of a setting. */
export function fieldMeta(key: RunKey): FieldMeta & { group: FieldGroup } {
  const groups = Object.keys(fieldGroups) as FieldGroup[];
  const group = groups.find((name) => key in fieldGroups[name])!;
  return { ...(runConfigSchema.shape[key].meta() as unknown as FieldMeta), group };
}
