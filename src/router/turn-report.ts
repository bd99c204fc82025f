/** Converts a turn's result to the report's format (snake_case). */
import type { RoutingReport, TransferReport, TurnReport } from '../measure/schemas/report.ts';
import type { RoutedTurn } from './decision.ts';
import type { TurnResult } from './turn-types.ts';

const nothing: TransferReport = { bytes: 0, blocks: 0, ms: 0, gbps: null, descriptors: 0, throttled: false };

export function turnReport(
  conversationId: string,
  turn: number,
  result: TurnResult,
  digests: readonly string[],
  text: string | null,
): TurnReport {
  const { prompt, transfer } = result;
  const moved = (summary: TurnResult['transfer']['pToD']): TransferReport => {
    if (!summary) return nothing;
    const { bytes, blocks, tokens, ms, movingMs, gbps, descriptors, throttled } = summary;
    const moving = movingMs === undefined ? {} : { moving_ms: movingMs };
    const loaded = tokens === undefined ? {} : { tokens };
    return { bytes, blocks, ...loaded, ms, ...moving, gbps, descriptors, throttled };
  };
  return {
    conversation_id: conversationId,
    turn,
    prompt_tokens: prompt.promptTokens,
    local_hit_tokens: prompt.localHitTokens,
    pulled_tokens: prompt.pulledTokens,
    computed_tokens: prompt.computedTokens,
    no_pull_reason: prompt.noPull?.reason ?? null,
    output_tokens: result.outputTokenIds.length,
    output_token_ids: [...result.outputTokenIds],
    logits_digests: [...digests],
    text,
    finish_reason: result.finishReason,
    ttft_ms: result.ttftMs,
    tpot_ms: result.tpotMs,
    latency_ms: result.latencyMs,
    stages_ms: { ...result.stagesMs },
    overlapped_ms: { ...result.overlappedMs },
    ...(result.routed ? { routing: routingReport(result.routed) } : {}),
    transfer: {
      p_to_d: moved(transfer.pToD),
      d_to_p: moved(transfer.dToP),
      ...(transfer.storeToP ? { store_to_p: moved(transfer.storeToP) } : {}),
      ...(transfer.storeToD ? { store_to_d: moved(transfer.storeToD) } : {}),
    },
  };
}

export function routingReport(routed: RoutedTurn): RoutingReport {
  const { policy, way, prefill, decode, load, why, predictedTtftMs, startMs, endMs } = routed;
  return {
    policy,
    way,
    prefill,
    decode,
    load,
    why,
    predicted_ttft_ms: predictedTtftMs,
    decided_in_ms: endMs - startMs,
    candidates: routed.candidates.map((candidate) => ({
      engine_id: candidate.engineId,
      side: candidate.side,
      in_flight: candidate.inFlight,
      running: candidate.running,
      waiting: candidate.waiting,
      age_ms: candidate.ageMs,
      cached_tokens: candidate.cachedTokens,
      score: candidate.score,
      best: candidate.best,
    })),
  };
}
