/** Engines in this process as a benchmark's target. Times are by the engines' clock. */
import { written } from '../../config/token-ids.ts';
import type { SamplingParams } from '../../engine/types.ts';
import { InternalError } from '../../errors.ts';
import type { Cluster, ClusterInfo } from '../../fleet/types.ts';
import type { TurnResult } from '../../router/turn-types.ts';
import { untilAborted } from '../drive.ts';
import type { AnsweredTurn, BenchTarget, TurnToSend } from './target.ts';

export class ClusterTarget implements BenchTarget {
  readonly #cluster: Cluster;
  readonly #sampling: Partial<SamplingParams>;
  /** Aborted turns that may still be running in an engine. */
  readonly #ending = new Set<Promise<unknown>>();

  constructor(cluster: Cluster, sampling: Partial<SamplingParams>) {
    this.#cluster = cluster;
    this.#sampling = sampling;
  }

  async send({
    conversationId,
    turn,
    prompt,
    minTokens,
    maxTokens,
    forced,
    auditor,
    signal,
  }: TurnToSend): Promise<AnsweredTurn> {
    // For an exact length, end tokens are ignored, as in other workloads of random tokens.
    const exact = minTokens !== null && minTokens === maxTokens;
    const sampling = {
      ...this.#sampling,
      ...(maxTokens !== null && { maxTokens }),
      ...(minTokens !== null && !exact && { minTokens }),
      ...(exact && { ignoreEos: true }),
      ...(forced && { forcedTokenIds: forced }),
    };
    const content =
      prompt.kind === 'tokens' ? { promptTokenIds: prompt.tokenIds } : { messages: prompt.messages };
    const request = { conversationId, ...content, sampling, signal };
    const generation = this.#cluster.generate(request);
    const gapsMs: number[] = [];
    const digests: string[] = [];
    let lastMs: number | null = null;
    let result: TurnResult | null = null;
    for await (const token of untilAborted(generation, signal, (ended) => this.#follow(ended))) {
      if (lastMs !== null) gapsMs.push(token.atMs - lastMs);
      lastMs = token.atMs;
      if (forced) digests.push(token.logitsDigest);
      if (token.final) result = token.final;
    }
    if (!result)
      throw new InternalError(`turn ${turn} of conversation ${conversationId} ended without a result`);
    const audit = auditor?.wants(result) ? await auditor.audit(this.#cluster, request, result) : null;
    const { text, prompt: account, transfer } = result;
    const outputTokenIds = written(result.outputTokenIds);
    return {
      ttftMs: result.ttftMs,
      latencyMs: result.latencyMs,
      gapsMs,
      inputTokens: account.promptTokens,
      outputTokens: outputTokenIds.length,
      chunks: outputTokenIds.length,
      // Forced tokens are always the same, so their logits are compared.
      output: forced ? digests : outputTokenIds,
      answer:
        prompt.kind === 'tokens' ? { kind: 'tokens', tokenIds: outputTokenIds } : { kind: 'text', text },
      account,
      stagesMs: result.stagesMs,
      bytesPToD: transfer.pToD?.bytes ?? 0,
      bytesDToP: transfer.dToP?.bytes ?? 0,
      ...(result.routed ? { routed: result.routed } : {}),
      ...(audit ? { audit } : {}),
    };
  }

  async endConversation(conversationId: string): Promise<void> {
    await this.#cluster.endConversation(conversationId);
  }

  async settled(): Promise<void> {
    await Promise.all(this.#ending);
  }

  #follow(ended: Promise<unknown>): void {
    this.#ending.add(ended);
    ended.finally(() => this.#ending.delete(ended));
  }
}

/** The report's description of the measured cluster. */
export const servedBy = (model: ClusterInfo['model'], link: ClusterInfo['link']) => ({
  kind: 'cluster' as const,
  url: null,
  model: model.name,
  block_bytes: model.blockBytes,
  kv_bytes_per_token: model.kvBytesPerToken,
  parameters: model.parameters,
  link: link?.name ?? null,
});
