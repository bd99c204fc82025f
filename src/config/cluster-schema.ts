/** Settings of the engines and of the transfers between them: pools, holds, link, batches, vLLM's own JSON. */
import { z } from 'zod';
import { anyNumber, countFrom0, flag, oneOf, positive, text, wholeNumber } from './fields.ts';
import { kvTransferConfigSchema } from './kv-transfer.ts';

export const KV_LAYOUTS = ['contiguous', 'layer-pieces'] as const;
export type KvLayout = (typeof KV_LAYOUTS)[number];
/** How D gets P's blocks: after P has finished, as in vLLM, or while P computes them. */
export const HANDOVERS = ['pull', 'streamed'] as const;
export type Handover = (typeof HANDOVERS)[number];
/** What happens to a request whose pulled KV does not arrive. */
export const LOAD_FAILURE_POLICIES = ['fail', 'recompute'] as const;
const BLOCK_SIZES = [8, 16, 32, 64, 128] as const;

const seconds = () => anyNumber('a number of seconds above 0', { above: 0 });
const blocks = () => wholeNumber('a whole number of blocks, 2 or more (one is the null block)', { min: 2 });

/** Parses a string that contains JSON; returns any other value unchanged. */
export const parsedJson = (value: unknown): unknown => {
  if (typeof value !== 'string') return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
};

const wantedTransferConfig = 'vLLM\'s JSON object, such as \'{"kv_connector":"NixlConnector"}\'';

export const cluster = {
  threshold: countFrom0('tokens').default(64).meta({
    description:
      "P pulls D's KV only if that adds at least this many tokens to P's own prefix cache hit; 0 always pulls. vLLM's kv_recompute_threshold and default.",
    value: 'TOKENS',
  }),
  blockSize: wholeNumber(`one of ${BLOCK_SIZES.join(', ')} tokens`, {})
    .refine((size) => BLOCK_SIZES.some((known) => known === size), {
      error: `one of ${BLOCK_SIZES.join(', ')} tokens`,
    })
    .default(16)
    .meta({ description: "Tokens per KV block. vLLM's block_size and default.", value: 'TOKENS' }),
  layout: oneOf(KV_LAYOUTS).default('contiguous').meta({
    description:
      'Memory layout of a KV block: contiguous across layers (one copy for adjacent blocks), or one piece per layer (one copy each).',
    value: 'contiguous|layer-pieces',
  }),
  pBlocks: blocks().nullable().default(null).meta({
    description:
      "KV blocks in P's pool. Default: room for two of the longest requests, ignoring sliding windows, within the largest buffer that a software adapter can bind.",
    value: 'BLOCKS',
  }),
  dBlocks: blocks().nullable().default(null).meta({
    description:
      "KV blocks in D's pool. Default: room for two of the longest requests, plus what D holds for the next turns of --max-num-seqs conversations (up to 64 MiB across all D).",
    value: 'BLOCKS',
  }),
  allFullKv: flag().default(false).meta({
    description:
      "For comparison: keep and move all KV blocks of sliding-window layers, not only those inside the window. vLLM's --disable-hybrid-kv-cache-manager.",
    value: null,
  }),
  ttl: seconds().default(480).meta({
    description: "How long D holds a finished turn's blocks for P. vLLM's decoder_kv_blocks_ttl and default.",
    value: 'SECONDS',
  }),
  lease: seconds().default(30).meta({
    description: "How long P keeps blocks for D without a heartbeat. vLLM's kv_lease_duration and default.",
    value: 'SECONDS',
  }),
  link: text('nvlink, rdma-400g, pcie, 100gbe, 10gbe, 1gbe or <bytes/s>[,<latency>]')
    .nullable()
    .default(null)
    .meta({
      description:
        'Slow transfers down to a modelled link: nvlink, rdma-400g, pcie, 100gbe, 10gbe, 1gbe or <bytes/s>[,<latency>], such as 10e6,1ms. Default: as fast as this machine copies.',
      value: 'LINK',
    }),
  handover: oneOf(HANDOVERS).default('pull').meta({
    description:
      "pull: D reads P's blocks after P has finished, as in vLLM. streamed (kvferry only): D gets the request at once and reads the blocks while P computes them. D's own blocks are allocated for that time. Through a store alone it is always pull.",
    value: 'pull|streamed',
  }),
  prefixCaching: flag().default(true).meta({
    description: 'P keeps no KV between turns. vLLM keeps it (enable_prefix_caching).',
    value: null,
    negated: true,
  }),
  tokenCheck: flag().default(true).meta({
    description:
      "Pull even past the first token that differs from P's prompt, as vLLM does. Demonstrates the wrong answers that this can cause. Not for servers whose clients do not trust each other.",
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
      description: "vLLM's --kv-transfer-config, unchanged. The mode decides bidirectional_kv_xfer.",
      value: 'JSON',
    }),
  loadFailurePolicy: oneOf(LOAD_FAILURE_POLICIES).default('fail').meta({
    description:
      "If pulled KV does not arrive: fail the request, or recompute the KV. vLLM's kv_load_failure_policy and default.",
    value: 'fail|recompute',
  }),
  maxNumBatchedTokens: positive('tokens').nullable().default(null).meta({
    description:
      "Most tokens per step. vLLM's max_num_batched_tokens. Default: 2048 as in vLLM, 256 on a software adapter; in simulations, the value that --costs were measured with.",
    value: 'TOKENS',
  }),
  maxNumSeqs: positive('requests').default(128).meta({
    description:
      "Most requests per step, including those that load KV. vLLM's max_num_seqs and default; vLLM counts running ones only.",
    value: 'REQUESTS',
  }),
  maxModelLen: positive('tokens').nullable().default(null).meta({
    description: "Longest prompt plus output. Default: the model's own limit, at most 8192.",
    value: 'TOKENS',
  }),
};
