/** Complete clusters for tests: nano by default, in worker threads, on the adapter named by KVFERRY_ADAPTER. */
import type { NixlConfig } from '../../src/config/kv-transfer.ts';
import { EngineCluster } from '../../src/fleet/cluster.ts';
import type { ClusterOptions } from '../../src/fleet/types.ts';
import { nodePlatform, useAdapter } from '../../src/platform/node.ts';
import type { GeneratedToken, GenerateRequest, TurnResult } from '../../src/router/turn-types.ts';
import { TEST_ADAPTER } from '../adapter.ts';

export const testOptions: ClusterOptions = {
  model: 'nano',
  weightSeed: 1,
  weightDtype: 'f16',
  kvDtype: 'f16',
  layout: 'contiguous',
  mode: 'bidirectional',
  blockSize: 16,
  prefill: { numBlocks: 128, enablePrefixCaching: false },
  decode: { numBlocks: 128, enablePrefixCaching: true },
  maxNumBatchedTokens: 64,
  maxNumSeqs: 8,
  maxModelLen: 1024,
  connector: {
    name: 'NixlConnector',
    loadFailurePolicy: 'recompute',
    nixl: {
      bidirectional: true,
      recomputeThreshold: 0,
      decoderTtlMs: 480_000,
      leaseMs: 30_000,
      enforceHandshakeCompat: true,
      tokenCheck: true,
    },
  },
  handover: 'pull',
  link: null,
  checksum: true,
  keepLogits: false,
  poison: true,
  fault: null,
};

/** The default connector settings with the given changes. */
export const nixlWith = (changes: Partial<NixlConfig>) => ({
  connector: { ...testOptions.connector, nixl: { ...testOptions.connector.nixl, ...changes } },
});

export async function startCluster(options: Partial<ClusterOptions> = {}): Promise<EngineCluster> {
  await useAdapter(TEST_ADAPTER);
  return EngineCluster.start(nodePlatform, { ...testOptions, ...options });
}

/** Starts a cluster, calls `use`, checks the block accounting, and closes the cluster in any case. */
export async function withCluster<T>(
  options: Partial<ClusterOptions>,
  use: (cluster: EngineCluster) => Promise<T>,
): Promise<T> {
  const cluster = await startCluster(options);
  try {
    const result = await use(cluster);
    await cluster.checkIntegrity();
    return result;
  } finally {
    await cluster.close();
  }
}

export interface Answer {
  tokens: GeneratedToken[];
  result: TurnResult;
}

export async function generate(cluster: EngineCluster, request: GenerateRequest): Promise<Answer> {
  const tokens: GeneratedToken[] = [];
  for await (const token of cluster.generate(request)) tokens.push(token);
  return { tokens, result: tokens.at(-1)!.final! };
}

/** Serves turn after turn: each prompt is the history so far plus new ids derived from the seed. */
export async function converse(
  cluster: EngineCluster,
  conversationId: string,
  turns: number,
  options: {
    seed?: number;
    newTokens?: number;
    outputTokens?: number;
    temperature?: number;
    ids?: number;
  } = {},
): Promise<Answer[]> {
  const { seed = 7, newTokens = 21, outputTokens = 12, temperature = 0, ids = 400 } = options;
  const answers: Answer[] = [];
  let history: number[] = [];
  for (let turn = 0; turn < turns; turn++) {
    const fresh = Array.from(
      { length: newTokens },
      (_, i) => 10 + ((seed * 7919 + turn * 104_729 + i * 31) % ids),
    );
    const promptTokenIds = [...history, ...fresh];
    const sampling = { maxTokens: outputTokens, temperature, seed, ignoreEos: true };
    const answer = await generate(cluster, { conversationId, promptTokenIds, sampling });
    answers.push(answer);
    history = [...promptTokenIds, ...answer.result.outputTokenIds];
  }
  return answers;
}

/** Token ids and logit digests: what must not depend on where the KV came from. */
export const fingerprint = (answers: readonly Answer[]): string[] =>
  answers.flatMap(({ tokens }) => tokens.map((token) => `${token.tokenId}:${token.logitsDigest}`));
