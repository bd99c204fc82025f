/**
 * Spans of a transfer's stages, in one shape: one span a stage and chunk. The reader emits them all, the holder's too,
 * whose times come with the chunk: so a transfer's spans are known where, and before, its end is.
 */
import type { Lane, RawSpan, SpanName, SpanSink, Way } from '../measure/spans.ts';
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

export interface StageSpan extends Pick<RawSpan, 'engineId' | 'lane' | 'startMs' | 'endMs'> {
  name: StageName;
  way: Way;
  /** The reader's request. */
  requestId: string | null;
  transferId: string;
  chunk: number;
  bytes: number;
}

/** Field by field: some for each chunk, and an object spread into another takes ten times as long. */
export function emitStage(sink: SpanSink, span: StageSpan): void {
  const { name, engineId, lane, way, startMs, endMs, requestId, transferId, chunk, bytes } = span;
  const clock = name === 'link' ? 'modelled' : 'host';
  sink({
    name,
    engineId,
    lane,
    way,
    startMs,
    endMs,
    clock,
    requestId,
    args: { transferId, chunk, bytes },
  });
}

/** What the holder did for a chunk, as its message tells. */
export function emitHolderStages(
  sink: SpanSink,
  { times, transferId, index, byteLength }: ChunkMessage,
  { holderId, readerId, requestId }: { holderId: string; readerId: string; requestId: string },
): void {
  const way = { from: holderId, to: readerId };
  const stage = (name: StageName, engineId: string, lane: Lane, startMs: number, endMs: number): void =>
    emitStage(sink, {
      name,
      engineId,
      lane,
      way,
      startMs,
      endMs,
      requestId,
      transferId,
      chunk: index,
      bytes: byteLength,
    });
  const span = (name: StageName, startMs: number, endMs: number) =>
    stage(name, holderId, 'host', startMs, endMs);
  span('wait', times.waitStart, times.gatherStart);
  span('gather', times.gatherStart, times.submitted);
  if (times.readbackStart > times.submitted) span('wait', times.submitted, times.readbackStart);
  span('readback', times.readbackStart, times.mapped);
  span('slab in', times.slabInStart, times.slabInEnd);
  if (!times.link) return;
  stage('link', way.to, 'link', times.link.start, times.link.arrival);
}
