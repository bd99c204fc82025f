/**
 * The blocks that this engine keeps for readers after their requests ended, and until when: NIXL's rules for the holder
 * (lease, TTL, heartbeats, notifications), with pins: blocks under a READ stay until it ends, whatever else happens.
 * Frees nothing itself: it reports whose hold has ended.
 */
import type { BlockId, BlockIds, Clock } from '../../engine/types.ts';
import type { ReadGate } from '../../transport/types.ts';
import { HoldMeter, type HoldUse } from '../hold-meter.ts';
import type { HeldCheck, ReaderHolds } from '../types.ts';
import type { SendRequest } from './metadata.ts';

/** Ends that are remembered, to tell a late reader why its blocks are gone. */
export const REMEMBERED_ENDS = 4096;

type HoldEnd = 'read' | 'expired' | 'dropped' | 'released';

interface Hold extends SendRequest {
  requestId: string;
  /** READs being served now. */
  readers: number;
  /** Decided while it was being read; takes effect with the last READ's end. */
  pendingEnd: HoldEnd | null;
}

export interface HoldTableDeps {
  clock: Clock;
  /** A heartbeat's extension, milliseconds. */
  extensionMs: number;
  /** Called once a hold, and once a request id that was refused as a hold. */
  onEnd: (requestId: string, end: HoldEnd) => void;
  /** A deadline came or moved: whoever waits for the next one should look again. */
  onDeadline: () => void;
  /** Nobody reads a hold any more that was read: it may be dropped now. */
  onUnread: () => void;
  /** Whether P's holds may go too: D's pool may be full of what P cannot compute for want of these blocks. */
  streamStarves: () => boolean;
}

export class HoldTable implements ReaderHolds {
  readonly #deps: HoldTableDeps;
  /** Oldest first. */
  readonly #holds = new Map<string, Hold>();
  /** Requests that have been scheduled and may later hold blocks (vLLM's _reqs_to_process). */
  readonly #toProcess = new Set<string>();
  /** Of toProcess: those whose reader said it is done before the hold came. */
  readonly #doneEarly = new Set<string>();
  readonly #recentEnds = new Map<string, HoldEnd>();
  readonly #meters: Record<SendRequest['direction'], HoldMeter>;

  constructor(deps: HoldTableDeps) {
    this.#deps = deps;
    this.#meters = { prefill: new HoldMeter(deps.clock), decode: new HoldMeter(deps.clock) };
  }

  process(requestId: string): void {
    this.#toProcess.add(requestId);
  }

  /** The request ended and leaves nothing to read. */
  notProcessed(requestId: string): void {
    this.#toProcess.delete(requestId);
    this.#doneEarly.delete(requestId);
  }

  /** A request that was never announced, or that its reader has no use for, ends at once. */
  hold(requestId: string, request: SendRequest): void {
    const known = this.#toProcess.has(requestId);
    if (!known || this.#doneEarly.has(requestId)) {
      this.#end(requestId, known ? 'read' : 'released');
      return;
    }
    this.#holds.set(requestId, { ...request, requestId, readers: 0, pendingEnd: null });
    this.#meters[request.direction].begin(request.blockIds);
    this.#deps.onDeadline();
  }

  doneReading(requestId: string): void {
    if (this.#holds.has(requestId)) this.#endWhenUnread(requestId, 'read');
    else if (this.#toProcess.has(requestId)) this.#doneEarly.add(requestId);
  }

  /** Only leases are renewed: a decode hold has a plain TTL, as in vLLM. */
  heartbeat(requestId: string): void {
    const hold = this.#holds.get(requestId);
    if (hold?.direction !== 'prefill') return;
    hold.deadline = Math.max(hold.deadline, this.#deps.clock.now() + this.#deps.extensionMs);
    this.#deps.onDeadline();
  }

  release(requestId: string): void {
    if (this.#holds.has(requestId)) this.#endWhenUnread(requestId, 'released');
  }

  /** D's holds for P: P can compute what it does not get. P's for D only where a stream starves. */
  dropOldest(): string | null {
    const unread = [...this.#holds.values()].filter(({ readers }) => readers === 0);
    const mayGo =
      unread.find(({ direction }) => direction === 'decode') ??
      (this.#deps.streamStarves() ? unread[0] : undefined);
    if (mayGo) this.#end(mayGo.requestId, 'dropped');
    return mayGo?.requestId ?? null;
  }

  expireNow(direction: SendRequest['direction']): number {
    const before = this.#holds.size;
    for (const hold of this.#holds.values()) {
      if (hold.direction === direction) hold.deadline = Math.min(hold.deadline, this.#deps.clock.now());
    }
    this.expire();
    return before - this.#holds.size;
  }

  /** Ends what is due and not being read. A full sweep: two kinds of deadline share the table. */
  expire(): void {
    const now = this.#deps.clock.now();
    for (const hold of [...this.#holds.values()]) {
      if (hold.deadline <= now && hold.readers === 0) this.#end(hold.requestId, 'expired');
    }
  }

  /** When expire() will next have something to do; null: not before something changes. */
  nextDeadline(): number | null {
    let next: number | null = null;
    for (const { deadline, readers } of this.#holds.values()) {
      if (readers === 0 && (next === null || deadline < next)) next = deadline;
    }
    return next;
  }

  list() {
    return [...this.#holds.values()].map(({ requestId, blockIds, direction, deadline, readers }) => {
      return { requestId, blockIds, direction, deadline, reading: readers > 0 };
    });
  }

  /** null: nothing is held under this id. */
  blockIds(requestId: string): BlockIds | null {
    return this.#holds.get(requestId)?.blockIds ?? null;
  }

  use(): { prefill: HoldUse; decode: HoldUse } {
    return { prefill: this.#meters.prefill.use(), decode: this.#meters.decode.use() };
  }

  check(requestId: string, blockIds: BlockIds): HeldCheck {
    const hold = this.#holds.get(requestId);
    if (!hold) return { state: this.#recentEnds.has(requestId) ? 'ended' : 'unknown', stray: null };
    for (const [group, ids] of blockIds.entries()) {
      const stray = ids.find((id) => !holdsBlock(hold.blockIds, group, id));
      if (stray !== undefined) return { state: 'stray', stray };
    }
    return { state: 'held', stray: null };
  }

  readonly gate: ReadGate = (requestId, blocks) => {
    this.expire();
    const hold = this.#holds.get(requestId);
    if (!hold) return this.#refuseUnknown(requestId);
    if (hold.deadline <= this.#deps.clock.now()) return refused('expired', requestId, EXPIRED);
    if (hold.pendingEnd) return refused('declined', requestId, 'its blocks are about to be freed');
    const stray = blocks.find(({ group, blockId }) => !holdsBlock(hold.blockIds, group, blockId));
    if (stray) {
      const message = `block ${stray.blockId} of group ${stray.group} is not among its blocks`;
      return refused('failed', requestId, message);
    }
    hold.readers += 1;
    let reading = true;
    const finished = () => {
      if (!reading) return;
      reading = false;
      this.#unpin(hold);
    };
    return { allow: true, finished };
  };

  #unpin(hold: Hold): void {
    hold.readers -= 1;
    if (hold.readers > 0) return;
    if (hold.pendingEnd) this.#end(hold.requestId, hold.pendingEnd);
    else this.#deps.onUnread();
  }

  #endWhenUnread(requestId: string, end: HoldEnd): void {
    const hold = this.#holds.get(requestId)!;
    if (hold.readers === 0) this.#end(requestId, end);
    else hold.pendingEnd ??= end;
  }

  #end(requestId: string, end: HoldEnd): void {
    const hold = this.#holds.get(requestId);
    if (hold) this.#meters[hold.direction].end(hold.blockIds);
    this.#holds.delete(requestId);
    this.notProcessed(requestId);
    this.#recentEnds.delete(requestId);
    this.#recentEnds.set(requestId, end);
    if (this.#recentEnds.size > REMEMBERED_ENDS) {
      const [oldest] = this.#recentEnds.keys();
      this.#recentEnds.delete(oldest!);
    }
    this.#deps.onEnd(requestId, end);
  }

  #refuseUnknown(requestId: string): ReturnType<ReadGate> {
    switch (this.#recentEnds.get(requestId)) {
      case 'dropped':
        return refused('declined', requestId, 'its blocks were freed because the pool was full');
      case 'released':
        return refused('declined', requestId, 'its blocks were released');
      case 'expired':
        return refused('expired', requestId, EXPIRED);
      case 'read':
        return refused('failed', requestId, 'its blocks were read and freed before');
      case undefined:
        return refused('failed', requestId, 'unknown request: nothing is held for it');
    }
  }
}

const EXPIRED = 'its time to be read has passed';

function refused(outcome: 'declined' | 'expired' | 'failed', requestId: string, why: string) {
  return { allow: false as const, outcome, message: `request '${requestId}' at the holder: ${why}.` };
}

function holdsBlock(held: BlockIds, group: number, blockId: BlockId): boolean {
  return held[group]?.includes(blockId) ?? false;
}
