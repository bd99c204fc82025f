/** Spans of a transfer's stages, in one shape: one span a stage and chunk. */
import type { SpanSink } from '../measure/spans.ts';

export type StageName = 'wait' | 'readback' | 'slab in' | 'link' | 'slab out' | 'upload' | 'notify';

export interface StageSpan {
  name: StageName;
  lane: string;
  startMs: number;
  endMs: number;
  /** The reader's request. */
  requestId: string | null;
  transferId: string;
  chunk: number;
  bytes: number;
}

export const hostLane = (engineId: string): string => `${engineId} host`;
export const linkLane = (from: string, to: string): string => `link ${from}>${to}`;

export function emitStage(sink: SpanSink, span: StageSpan): void {
  const { name, lane, startMs, endMs, requestId, transferId, chunk, bytes } = span;
  sink({
    name,
    lane,
    startMs,
    endMs,
    clock: name === 'link' ? 'modelled' : 'host',
    requestId,
    args: { transferId, chunk, bytes },
  });
}
