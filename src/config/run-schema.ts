/**
 * Every setting of a user, once: the command line's options (kebab-case), the config file's keys (camelCase), a URL's and
 * an HTTP body's fields all come from this one strict schema. Where vLLM has the setting, name, meaning and default are
 * vLLM's. What follows from several settings together is run.ts.
 */
import { z } from 'zod';
import { bench, endpoint, measuring } from './bench-schema.ts';
import { anyNumber, type FieldMeta, flag, listOf, oneOf, text, wholeNumber } from './fields.ts';
import { kvTransferConfigSchema } from './kv-transfer.ts';
import { serving } from './serve-schema.ts';
import { audit, calibration, costs, sweep } from './sweep-schema.ts';
import { tracing } from './tracing.ts';

export const KV_LAYOUTS = ['contiguous', 'layer-pieces'] as const;
export type KvLayout = (typeof KV_LAYOUTS)[number];
const MODES = ['monolithic', 'unidirectional', 'bidirectional', 'decode-local'] as const;
const BLOCK_SIZES = [8, 16, 32, 64, 128] as const;

const positive = (what: string) => wholeNumber(`a whole number of ${what}, 1 or more`, { min: 1 });
const countFrom0 = (what: string) => wholeNumber(`a whole number of ${what}, 0 or more`, { min: 0 });
const seconds = () => anyNumber('a number of seconds above 0', { above: 0 });
const blocks = () => wholeNumber('a whole number of blocks, 2 or more (one is the null block)', { min: 2 });

/** A string that holds JSON as what it says; anything else as it is. */
export const parsedJson = (value: unknown): unknown => {
  if (typeof value !== 'string') return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
};

const wantedTransferConfig = 'vLLM\'s JSON object, such as \'{"kv_connector":"NixlConnector"}\'';

/** The model and what it runs on. */
const machine = {
  model: text('a preset or a directory').default('recall').meta({
    description:
      'A preset (recall, nano, tiny, small, smollm2-135m, qwen2.5-0.5b, llama-3.2-1b) or a Hugging Face directory. recall is trained; the other presets have weights from the seed.',
    value: 'PRESET|DIR',
  }),
  adapter: text("auto, gpu, lavapipe, swiftshader or part of an adapter's name").default('auto').meta({
    description:
      'auto takes a real GPU, else lavapipe, else SwiftShader. Or gpu, lavapipe, swiftshader, or part of a name.',
    value: 'NAME',
  }),
  kvDtype: oneOf(['f16', 'f32'])
    .default('f16')
    .meta({ description: 'What K and V are kept as.', value: 'f16|f32' }),
  weightDtype: oneOf(['f16', 'f32'])
    .default('f16')
    .meta({ description: 'What weights are kept as; sums are f32 always.', value: 'f16|f32' }),
  seed: wholeNumber('a whole number from 0 to 4294967295', { min: 0, max: 0xffff_ffff }).default(0).meta({
    description: "Seed of sampling, of generated weights and of made conversations. vLLM's default.",
    value: 'N',
  }),
};

/** How the two engines and the way between them are set. */
const cluster = {
  threshold: countFrom0('tokens').default(64).meta({
    description:
      "P pulls D's KV only when it brings at least so many tokens beyond P's own hit; 0 always pulls. vLLM's kv_recompute_threshold and default; the shipped conversation has 32.",
    value: 'TOKENS',
  }),
  blockSize: wholeNumber(`one of ${BLOCK_SIZES.join(', ')} tokens`, {})
    .refine((size) => BLOCK_SIZES.some((known) => known === size), {
      error: `one of ${BLOCK_SIZES.join(', ')} tokens`,
    })
    .default(16)
    .meta({ description: "Tokens a KV block holds. vLLM's block_size and default.", value: 'TOKENS' }),
  layout: oneOf(KV_LAYOUTS).default('contiguous').meta({
    description:
      'A KV block contiguous across layers (one copy for neighbouring blocks), or in one piece a layer (a copy each).',
    value: 'contiguous|layer-pieces',
  }),
  pBlocks: blocks().nullable().default(null).meta({
    description: "KV blocks in P's pool. Left out: room for two of the longest requests.",
    value: 'BLOCKS',
  }),
  dBlocks: blocks().nullable().default(null).meta({
    description: "KV blocks in D's pool. Left out: room for two of the longest requests.",
    value: 'BLOCKS',
  }),
  ttl: seconds().default(480).meta({
    description: "How long D keeps a finished turn's blocks for P. vLLM's decoder_kv_blocks_ttl and default.",
    value: 'SECONDS',
  }),
  lease: seconds().default(30).meta({
    description: "How long P keeps blocks for D between heartbeats. vLLM's kv_lease_duration and default.",
    value: 'SECONDS',
  }),
  link: text('nvlink, rdma-400g, pcie, 100gbe, 10gbe, 1gbe or <bytes/s>[,<latency>]')
    .nullable()
    .default(null)
    .meta({
      description:
        'Slows transfers to a modelled link: nvlink, rdma-400g, pcie, 100gbe, 10gbe, 1gbe or <bytes/s>[,<latency>], such as 10e6,1ms. Left out: as fast as this machine copies.',
      value: 'LINK',
    }),
  prefixCaching: flag().default(true).meta({
    description:
      'P keeps no KV between turns. vLLM keeps it (enable_prefix_caching); with the shipped conversation P keeps none, unless --prefix-caching is given, so that every earlier token is pulled or computed again.',
    value: null,
    negated: true,
  }),
  tokenCheck: flag().default(true).meta({
    description:
      "Pull even past the first token that differs from P's prompt, as vLLM does: shows the wrong answers that this can give.",
    value: null,
    negated: true,
  }),
  kvTransferConfig: z
    .preprocess(
      parsedJson,
      z
        .record(z.string(), z.unknown(), { error: wantedTransferConfig })
        .superRefine((value, context) => {
          const result = kvTransferConfigSchema.safeParse(value);
          for (const { path, message, ...issue } of result.error?.issues ?? []) {
            context.addIssue({ ...issue, path, message } as never);
          }
        })
        .nullable(),
    )
    .default(null)
    .meta({
      description: "vLLM's --kv-transfer-config, as it is. The mode decides bidirectional_kv_xfer.",
      value: 'JSON',
    }),
  loadFailurePolicy: oneOf(['fail', 'recompute']).default('fail').meta({
    description:
      "When pulled KV does not arrive: fail the request, or compute it. vLLM's kv_load_failure_policy and default.",
    value: 'fail|recompute',
  }),
  maxNumBatchedTokens: positive('tokens').nullable().default(null).meta({
    description:
      "Rows a step computes at most. vLLM's max_num_batched_tokens. Left out: 2048 as in vLLM, 256 on a software adapter.",
    value: 'TOKENS',
  }),
  maxNumSeqs: positive('requests').default(128).meta({
    description: "Requests a step serves at most. vLLM's max_num_seqs and default.",
    value: 'REQUESTS',
  }),
  maxModelLen: positive('tokens').nullable().default(null).meta({
    description: "Longest prompt and output together. Left out: the model's own, at most 8192.",
    value: 'TOKENS',
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
    .default(['monolithic', 'unidirectional', 'bidirectional'])
    .meta({
      description: `Comma list of ${MODES.join(', ')}. Left out: the first three. decode-local: D prefills later turns itself.`,
      value: 'MODES',
    }),
};

const verify = {
  fixture: text('a directory').nullable().default(null).meta({
    description: 'Also check logits and KV against expected.safetensors in this directory.',
    value: 'DIR',
  }),
};

/** Files that a report is written to, and what is asked of it. */
const outputs = {
  html: text('a file').nullable().default(null).meta({
    description: 'Write the report as one page of HTML, with charts; it needs no network.',
    value: 'FILE',
  }),
  markdown: text('a file').nullable().default(null).meta({
    description: "Write the report as Markdown, such as a CI job's summary.",
    value: 'FILE',
  }),
  junit: text('a file').nullable().default(null).meta({
    description: 'Write the checks (assertions, equal tokens, integrity) as JUnit XML.',
    value: 'FILE',
  }),
  assert: z
    .preprocess(
      (value) => (typeof value === 'string' ? [value] : value),
      z.array(z.string().min(1), { error: "a comparison, such as 'comparison.tokens_identical == true'" }),
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

const general = {
  json: z
    .preprocess(
      (value) => (value === 'true' ? true : value === 'false' ? false : value),
      z.union([z.boolean(), z.string().min(1)], { error: 'true, false or the name of a file' }),
    )
    .default(false)
    .meta({
      description: 'Write the report as JSON to FILE, or to stdout (tables then go to stderr).',
      value: 'FILE',
      valueOptional: true,
    }),
  debug: flag().default(false).meta({ description: 'Show stack traces.', value: null }),
};

export const fieldGroups = {
  machine,
  cluster,
  sampling,
  workload,
  modes,
  measuring,
  bench,
  endpoint,
  sweep,
  serving,
  calibration,
  costs,
  audit,
  verify,
  outputs,
  recording,
  tracing,
  general,
} as const;

/** What a user can set, with every default. Strict: an unknown key is an error. */
export const runConfigSchema = z.strictObject({
  ...machine,
  ...cluster,
  ...sampling,
  ...modes,
  ...workload,
  ...measuring,
  ...bench,
  ...endpoint,
  ...sweep,
  ...serving,
  ...calibration,
  ...costs,
  ...audit,
  ...verify,
  ...outputs,
  ...recording,
  ...tracing,
  ...general,
});

export type RunConfig = Readonly<z.infer<typeof runConfigSchema>>;
export type RunKey = keyof RunConfig;

/** What a caller may give: any part of it. */
export type RunConfigInput = { readonly [K in RunKey]?: RunConfig[K] | undefined };

export const runKeys = Object.keys(runConfigSchema.shape) as readonly RunKey[];

/** Help's text and heading of a setting. */
export function fieldMeta(key: RunKey): FieldMeta {
  const group = (Object.keys(fieldGroups) as (keyof typeof fieldGroups)[]).find(
    (name) => key in fieldGroups[name],
  )!;
  return { ...(runConfigSchema.shape[key].meta() as unknown as Omit<FieldMeta, 'group'>), group };
}
