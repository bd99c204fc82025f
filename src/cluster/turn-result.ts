/** From what was observed of a turn to what is reported of it. */
import type { TransferStages } from '../transport/types.ts';
import type { ObservedTransfer } from './engine-handle.ts';
import type { TurnTrace } from './router.ts';
import type { TransferSummary } from './types.ts';

const noStages: TransferStages = {
  handshakeMs: 0,
  waitMs: 0,
  readbackMs: 0,
  slabInMs: 0,
  linkMs: 0,
  slabOutMs: 0,
  uploadMs: 0,
  notifyMs: 0,
};

/** null when nothing was moved. */
export function summarise(transfers: readonly ObservedTransfer[], throttled: boolean): TransferSummary | null {
  const done = transfers.map((t) => t.result).filter((result) => result.outcome === 'done' && result.bytes > 0);
  if (done.length === 0) return null;
  const sum = (value: (result: (typeof done)[number]) => number): number => done.reduce((total, r) => total + value(r), 0);
  const stages = { ...noStages };
  for (const key of Object.keys(stages) as (keyof TransferStages)[]) stages[key] = sum((r) => r.stages[key]);
  const bytes = sum((r) => r.bytes);
  const ms = sum((r) => r.wallMs);
  return {
    bytes,
    blocks: sum((r) => r.blocks),
    ms,
    gbps: ms > 0 ? bytes / ms / 1e6 : 0,
    descriptors: sum((r) => r.descriptors),
    throttled,
    stages,
  };
}

/**
 * Where the time to the first token went, milliseconds. The parts follow each other and add up to TTFT:
 * pull_d_to_p, prefill, hand_over_p_to_d, first_decode_step (with the waits for each engine's next step in them).
 */
export function turnStages(
  trace: TurnTrace,
  firstTokenMs: number,
  dToP: TransferSummary | null,
  pToD: TransferSummary | null,
): Record<string, number> {
  if (trace.prefillDoneMs === null) return { prefill: firstTokenMs - trace.acceptedMs };
  const pull = dToP?.ms ?? 0;
  const handOver = pToD?.ms ?? 0;
  return {
    pull_d_to_p: pull,
    prefill: trace.prefillDoneMs - trace.acceptedMs - pull,
    hand_over_p_to_d: handOver,
    first_decode_step: firstTokenMs - trace.prefillDoneMs - handOver,
  };
}
