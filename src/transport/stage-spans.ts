/**
 * Spans of a transfer's stages, in one shape: one span a stage and chunk. The reader emits them all, the holder's too,
 * whose times come with the chunk: so a transfer's spans are known where, and before, its end is.
 */
import { hostLane, linkLane, type SpanName, type SpanSink, wayBetween } from '../measure/spans.ts';
import type { ChunkMessage } from './messages.ts';

export type StageName = Extract<
  SpanName,
  | 'handshake'
  | 'wait'
  | 'gather'
  | 'readback'
  | 'slab in'
  | 'link'
  | 'slab out'
  | 'upload'
  | 'scatter'
  | 'notify'
>;

export interface StageSpan {
  name: StageName;
  lane: string;
  startMs: number;
  endMs: number;
  /** The reader's request. */
  requestId: string | null;
  transferId: string;
  /** '<holder>><reader>'. */
  way: string;
  chunk: number;
  bytes: number;
}

export function emitStage(sink: SpanSink, span: StageSpan): void {
  const { name, lane, startMs, endMs, requestId, transferId, way, chunk, bytes } = span;
  sink({
    name,
    lane,
    startMs,
    endMs,
    clock: name === 'link' ? 'modelled' : 'host',
    requestId,
    args: { transferId, way, chunk, bytes },
  });
}

/** What the holder did for a chunk, as its message tells. */
export function emitHolderStages(
  sink: SpanSink,
  { times, transferId, index, byteLength }: ChunkMessage,
  { holderId, readerId, requestId }: { holderId: string; readerId: string; requestId: string },
): void {
  const host = hostLane(holderId);
  const shared = { requestId, transferId, way: wayBetween(holderId, readerId), chunk: index };
  const span = (name: StageName, lane: string, startMs: number, endMs: number): void =>
    emitStage(sink, { ...shared, name, lane, startMs, endMs, bytes: byteLength });
  span('wait', host, times.waitStart, times.gatherStart);
  span('gather', host, times.gatherStart, times.submitted);
  if (times.readbackStart > times.submitted) span('wait', host, times.submitted, times.readbackStart);
  span('readback', host, times.readbackStart, times.mapped);
  span('slab in', host, times.slabInStart, times.slabInEnd);
  if (times.link) span('link', linkLane(holderId, readerId), times.link.start, times.link.arrival);
}
