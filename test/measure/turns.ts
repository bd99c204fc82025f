/** Plausible turns of a report; a test sets the fields that matter to it. */
import type { TurnReport } from '../../src/measure/schemas/report.ts';

const noTransfer = { bytes: 0, blocks: 0, ms: 0, gbps: null, descriptors: 0, throttled: false };

export function turnReport(fields: Partial<TurnReport> = {}): TurnReport {
  const ids = fields.output_token_ids ?? [5, 6, 7];
  return {
    conversation_id: 'c1',
    turn: 1,
    prompt_tokens: 10,
    local_hit_tokens: 0,
    pulled_tokens: 0,
    computed_tokens: 10,
    no_pull_reason: null,
    output_tokens: ids.length,
    output_token_ids: ids,
    logits_digests: ids.map((id) => `digest-${id}`),
    text: null,
    finish_reason: 'stop',
    ttft_ms: 10,
    tpot_ms: 2,
    latency_ms: 14,
    stages_ms: {},
    overlapped_ms: {},
    transfer: { p_to_d: noTransfer, d_to_p: noTransfer },
    ...fields,
  };
}
