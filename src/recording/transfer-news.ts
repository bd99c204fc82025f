/** Turns an engine's reports of copied blocks into events: between engines, and to and from the store. */
import type { EngineEvent } from '../host/engine-report.ts';
import type { TurnSide } from '../measure/spans/spans.ts';
import type { SessionEvent } from './events.ts';

export interface TransferFacts {
  /** The shared clock's time that becomes 0. */
  originMs: number;
  /** Side of the request that reads or is saved. */
  side: TurnSide;
  /** A modelled link is between the two. */
  throttled: boolean;
}

/** The events of a copy; none for other reports. */
export function transferNews(
  engineId: string,
  event: EngineEvent,
  { originMs, side, throttled }: TransferFacts,
): SessionEvent[] {
  switch (event.kind) {
    case 'pull': {
      const { requestId, remoteEngineId: from, pairs, bytes, streamed, atMs } = event;
      const way = { requestId, from, to: engineId, side };
      const started = { ...way, pairs, bytes, ...(streamed ? { streamed } : {}) };
      return [{ kind: 'transfer_started', atMs: atMs - originMs, ...started }];
    }
    case 'chunk': {
      const { requestId, pairs, atMs } = event;
      return [{ kind: 'transfer_chunk', atMs: atMs - originMs, requestId, pairs }];
    }
    case 'transfer': {
      const { requestId, remoteEngineId: from, atMs } = event;
      const { outcome, message, bytes, blocks, wallMs: ms, movingMs, stages } = event.result;
      const way = { requestId, from, to: engineId, side };
      const moving = movingMs === null ? {} : { movingMs };
      const ended = { ...way, outcome, message, bytes, blocks, ms, ...moving, stagesMs: { ...stages } };
      return [{ kind: 'transfer_ended', atMs: atMs - originMs, ...ended, throttled }];
    }
    case 'saved': {
      // A save is reported when it has ended.
      const { requestId, remoteEngineId: to, pairs, bytes, startedMs, atMs } = event;
      const way = { requestId, from: engineId, to, side };
      const done = { outcome: 'done', message: '', stagesMs: {}, ms: atMs - startedMs, throttled };
      return [
        { kind: 'transfer_started', atMs: startedMs - originMs, ...way, pairs, bytes },
        { kind: 'transfer_ended', atMs: atMs - originMs, ...way, bytes, blocks: pairs.length, ...done },
      ];
    }
    default:
      return [];
  }
}
