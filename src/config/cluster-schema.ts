/** The settings of the two engines and of what lies between them: pools, holds, link, batches, vLLM's own JSON. */
import { z } from 'zod';
import { anyNumber, countFrom0, flag, oneOf, positive, text, wholeNumber } from './fields.ts';
import { kvTransferConfigSchema } from './kv-transfer.ts';

export const KV_LAYOUTS = ['contiguous', 'layer-pieces'] as const;
export type KvLayout = (typeof KV_LAYOUTS)[number];
/** How D gets P's blocks: when P is done, as in vLLM, or as P computes them. */
export const HANDOVERS = ['pull', 'streamed'] as const;
export type Handover = (typeof HANDOVERS)[number];
/** When pulled KV does not arrive. */
export const LOAD_FAILURE_POLICIES = ['fail', 'recompute'] as const;
const BLOCK_SIZES = [8, 16, 32, 64, 128] as const;

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

/** How the two engines and the way between them are set. */
export const cluster = {
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
    description:
      "KV blocks in P's pool. Left out: room for two of the longest requests, windows not counted, within what a software adapter binds at once.",
    value: 'BLOCKS',
  }),
  dBlocks: blocks().nullable().default(null).meta({
    description:
      "KV blocks in D's pool. Left out: room for two of the longest requests, and for what D holds for the next turns of --max-num-seqs conversations, the latter up to 64 MiB over all D.",
    value: 'BLOCKS',
  }),
  allFullKv: flag().default(false).meta({
    description:
      "Keep and move every KV block of layers with a sliding window too, not only what the window sees: to compare. vLLM's --disable-hybrid-kv-cache-manager.",
    value: null,
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
  handover: oneOf(HANDOVERS).default('pull').meta({
    description:
      "pull: D reads P's blocks when P is done, as in vLLM. streamed (kvferry's own, not vLLM's): D is asked at once, and reads them as P computes them; its blocks are taken for that long.",
    value: 'pull|streamed',
  }),
  prefixCaching: flag().default(true).meta({
    description:
      'P keeps no KV between turns. vLLM keeps it (enable_prefix_caching); with the shipped conversation P keeps none, unless --prefix-caching is given, so that every earlier token is pulled or computed again.',
    value: null,
    negated: true,
  }),
  tokenCheck: flag().default(true).meta({
    description:
      "Pull even past the first token that differs from P's prompt, as vLLM does: shows the wrong answers that this can give. Not for a server whose clients do not trust each other.",
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
  loadFailurePolicy: oneOf(LOAD_FAILURE_POLICIES).default('fail').meta({
    description:
      "When pulled KV does not arrive: fail the request, or compute it. vLLM's kv_load_failure_policy and default.",
    value: 'fail|recompute',
  }),
  maxNumBatchedTokens: positive('tokens').nullable().default(null).meta({
    description:
      "Rows a step computes at most. vLLM's max_num_batched_tokens. Left out: 2048 as in vLLM, 256 on a software adapter; simulated, as many as --costs were measured with.",
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
