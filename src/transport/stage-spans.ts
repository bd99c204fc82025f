/**
 * Spans of a transfer's stages: one per stage and chunk. The reader emits them all, including the holder's, whose times come
 * with the chunk message. So all spans are emitted in one place, and before the transfer ends.
 */
import type { SpanName, SpanSink, Way } from '../measure/spans/spans.ts';
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

/** Span fields common to all stages of a chunk. */
export interface StagedChunk {
  way: Way;
  /** The reader's request. */
  requestId: string | null;
  args: { transferId: string; chunk: number; bytes: number };
}

/** `engineId`: the engine that did the work; for a link or a notification, the receiving engine. */
export function emitStage(
  sink: SpanSink,
  name: StageName,
  engineId: string,
  { way, requestId, args }: StagedChunk,
  startMs: number,
  endMs: number,
): void {
  const lane = name === 'link' || name === 'notify' ? 'link' : 'host';
  const clock = name === 'link' ? 'modelled' : 'host';
  sink({ name, engineId, lane, way, startMs, endMs, clock, requestId, args });
}

/** Emits the holder's stages of a chunk, from the times in its message. */
export function emitHolderStages(
  sink: SpanSink,
  { transferId, index, byteLength, times }: ChunkMessage,
  { holderId, readerId, requestId }: { holderId: string; readerId: string; requestId: string },
): void {
  const way = { from: holderId, to: readerId };
  const chunk = { way, requestId, args: { transferId, chunk: index, bytes: byteLength } };
  const span = (name: StageName, startMs: number, endMs: number): void =>
    emitStage(sink, name, holderId, chunk, startMs, endMs);
  span('wait', times.waitStart, times.gatherStart);
  span('gather', times.gatherStart, times.submitted);
  if (times.readbackStart > times.submitted) span('wait', times.submitted, times.readbackStart);
  span('readback', times.readbackStart, times.mapped);
  span('slab in', times.slabInStart, times.slabInEnd);
  if (times.link) emitStage(sink, 'link', readerId, chunk, times.link.start, times.link.arrival);
}
