/** Converts an answered turn to a benchmark's measured request. */
import type { MeasuredRequest } from '../../measure/summaries/bench-summary.ts';
import type { AnsweredTurn } from './target.ts';

export interface SentTurn {
  round: number;
  conversationId: string;
  /** From 1. */
  turn: number;
  client: number;
  /** Milliseconds since the round's first request. */
  startMs: number;
  /** Tokens of the whole prompt; used if the answer does not report them. */
  inputTokens: number;
}

export function measuredRequest(sent: SentTurn, answered: AnsweredTurn): MeasuredRequest {
  const { account, chunks, latencyMs, outputTokens, ttftMs } = answered;
  return {
    sample: {
      round: sent.round,
      conversation_id: sent.conversationId,
      turn: sent.turn,
      client: sent.client,
      start_ms: sent.startMs,
      ttft_ms: ttftMs,
      tpot_ms: chunks > 1 ? (latencyMs - ttftMs) / stepsOf(chunks, outputTokens) : 0,
      latency_ms: latencyMs,
      input_num_turns: 2 * sent.turn - 1,
      input_num_tokens: answered.inputTokens ?? sent.inputTokens,
      output_num_tokens: outputTokens,
      output_num_chunks: Math.max(0, chunks - 1),
      ...(answered.cachedTokens !== undefined && { cached_tokens: answered.cachedTokens }),
      local_hit_tokens: account.localHitTokens,
      pulled_tokens: account.pulledTokens,
      computed_tokens: account.computedTokens,
      stages_ms: { ...answered.stagesMs },
    },
    gapsMs: answered.gapsMs,
    output: answered.output,
    ...(answered.routed ? { routed: answered.routed } : {}),
    bytesPToD: answered.bytesPToD,
    bytesDToP: answered.bytesDToP,
    ...(answered.audit ? { audit: answered.audit } : {}),
  };
}

/** Steps after the first chunk. A chunk is one step, or several if there are fewer chunks than tokens. */
const stepsOf = (chunks: number, tokens: number): number =>
  chunks > tokens ? chunks - 1 : tokens - Math.max(1, tokens / chunks);
