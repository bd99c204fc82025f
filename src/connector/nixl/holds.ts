/**
 * The blocks that this engine keeps for readers after their requests ended, and until when: NIXL's rules for the holder
 * (lease, TTL, heartbeats, notifications), with pins: blocks under a READ stay until it ends, whatever else happens. Who
 * may read (who-may-read.ts), renew or end a hold is decided by what the holder knows of its tokens, salt and blocks:
 * parameters come from clients, who may have made them up. Frees nothing itself: it reports whose hold has ended.
 */
import type { Pressure } from '../../engine/kv-connector.ts';
import type { BlockIds, Clock } from '../../engine/types.ts';
import { type PrefixClaim, sameClaim } from '../../transport/prefix-claim.ts';
import type { HoldRef, ReadClaim, ReadGate } from '../../transport/types.ts';
import { HoldMeter, type HoldUse } from '../hold-meter.ts';
import type { ReaderHolds } from '../types.ts';
import { Deadlines } from './deadlines.ts';
import { type HoldEnd, HoldEnds, REFUSED, type Refusal, refusal } from './hold-ends.ts';
import type { SendRequest } from './metadata.ts';
import { mayName, provenBlocks, type ReadRules } from './who-may-read.ts';

interface Hold extends SendRequest {
  requestId: string;
  /** Of all its tokens. */
  held: PrefixClaim;
  /** READs being served now. */
  readers: number;
  /** Decided while it was being read; takes effect with the last READ's end. */
  pendingEnd: HoldEnd | null;
  /** The engine that reads it, or has said that it will; null: nobody has asked for it yet. */
  readerId: string | null;
  /** Of P's for D: D would have been heard of before. */
  abandonedMs: number;
  /** That this time has come was told. */
  abandoned: boolean;
  /** Made as the so-manieth. */
  order: number;
}

export interface HoldTableDeps extends ReadRules {
  clock: Clock;
  /** Milliseconds. A reader's heartbeats come every sixth of it; each extends by two thirds. */
  leaseMs: number;
  /** Called once a hold, and once a request id that was refused as a hold; null: for whom is not known. */
  onEnd: (requestId: string, end: HoldEnd, direction: SendRequest['direction'] | null) => void;
  /** A deadline came or moved: whoever waits for the next one should look again. */
  onDeadline: () => void;
  /** A hold may be dropped that could not be before. */
  onDroppable: () => void;
  /** Whether P's holds may go too: D's pool may be full of what P cannot compute for want of these blocks. */
  streamStarves: () => boolean;
}

export class HoldTable implements ReaderHolds {
  readonly #deps: HoldTableDeps;
  /** Oldest first. */
  readonly #holds = new Map<string, Hold>();
  /** Requests that have been scheduled and may later hold blocks (vLLM's _reqs_to_process). */
  readonly #toProcess = new Set<string>();
  /** Of toProcess: those whose reader said it is done before the hold came, with what it says is held. */
  readonly #doneEarly = new Map<string, PrefixClaim>();
  readonly #ends: HoldEnds;
  /** Of every hold that is not being read. */
  readonly #deadlines = new Deadlines<Hold>((hold) => this.#dueMs(hold));
  #made = 0;
  readonly #meters: Record<SendRequest['direction'], HoldMeter>;

  constructor(deps: HoldTableDeps) {
    this.#deps = deps;
    this.#ends = new HoldEnds(deps.clock);
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
    const { blockIds, tokenIds, cacheSalt, deadline, direction } = request;
    const held = this.#deps.claim(tokenIds, tokenIds.length, cacheSalt);
    const known = this.#toProcess.has(requestId);
    const doneEarly = this.#doneEarly.get(requestId);
    if (!known || (doneEarly && sameClaim(doneEarly, held))) {
      this.#end(requestId, held, known ? 'read' : 'released');
      return;
    }
    const abandonedMs = this.#deps.clock.now() + this.#deps.leaseMs / 3;
    const hold: Hold = {
      blockIds,
      tokenIds,
      cacheSalt,
      deadline,
      direction,
      requestId,
      held,
      readers: 0,
      pendingEnd: null,
      readerId: null,
      abandonedMs,
      abandoned: false,
      order: this.#made++,
    };
    this.#holds.set(requestId, hold);
    this.#deadlines.add(hold);
    this.#meters[direction].begin(blockIds);
    this.#deps.onDeadline();
  }

  doneReading({ requestId, held }: HoldRef): void {
    const hold = this.#holds.get(requestId);
    if (hold && sameClaim(hold.held, held)) this.#endWhenUnread(hold, 'read');
    else if (!hold && this.#toProcess.has(requestId)) this.#doneEarly.set(requestId, held);
  }

  /** Only leases are renewed: a decode hold has a plain TTL, as in vLLM. */
  heartbeat({ requestId, held }: HoldRef, readerId: string): void {
    const hold = this.#holds.get(requestId);
    if (hold?.direction !== 'prefill' || !sameClaim(hold.held, held)) return;
    const now = this.#deps.clock.now();
    const { leaseMs } = this.#deps;
    hold.deadline = Math.max(hold.deadline, now + (leaseMs * 2) / 3);
    hold.readerId = readerId;
    hold.abandonedMs = now + leaseMs / 3;
    hold.abandoned = false;
    // Earlier than its lease's end, which it may have been waiting for alone.
    this.#deadlines.add(hold);
    this.#deps.onDeadline();
  }

  release(requestId: string): void {
    const hold = this.#holds.get(requestId);
    if (hold) this.#endWhenUnread(hold, 'released');
  }

  /** The engine reads nothing any more. Its blocks stay pinned until the device has done what was submitted. */
  readerGone(readerId: string): void {
    for (const hold of [...this.#holds.values()])
      if (hold.readerId === readerId) this.#endWhenUnread(hold, 'released');
  }

  /**
   * D's holds for P: P can compute what it does not get. P's for D, which does the same, where D should have been heard of
   * by its heartbeats; the others only where nobody gets on and a stream starves.
   */
  dropOldest(pressure: Pressure): string | null {
    const now = this.#deps.clock.now();
    const starves = pressure === 'stuck' && this.#deps.streamStarves();
    const mayGo =
      this.#oldestUnread(({ direction }) => direction === 'decode') ??
      this.#oldestUnread(({ abandonedMs }) => starves || abandonedMs <= now);
    if (mayGo) this.#end(mayGo.requestId, mayGo.held, 'dropped');
    return mayGo?.requestId ?? null;
  }

  expireNow(direction: SendRequest['direction']): number {
    const before = this.#holds.size;
    for (const hold of this.#holds.values()) {
      if (hold.direction !== direction) continue;
      hold.deadline = Math.min(hold.deadline, this.#deps.clock.now());
      this.#deadlines.add(hold);
    }
    this.expire();
    return before - this.#holds.size;
  }

  /** Ends what is due and not being read, the oldest first. */
  expire(): void {
    const now = this.#deps.clock.now();
    const next = this.#deadlines.nextMs();
    if (next === null || next > now) return;
    for (const hold of this.#deadlines.take(now).sort((a, b) => a.order - b.order)) {
      if (hold.deadline <= now) this.#end(hold.requestId, hold.held, 'expired');
      else {
        // Nothing else makes it due before.
        hold.abandoned = true;
        this.#deadlines.add(hold);
        this.#deps.onDroppable();
      }
    }
  }

  /** When expire() will next have something to do; null: not before something changes. */
  nextDeadline(): number | null {
    return this.#deadlines.nextMs();
  }

  list() {
    return [...this.#holds.values()].map(({ requestId, blockIds, direction, deadline, readers }) => {
      return { requestId, blockIds, direction, deadline, reading: readers > 0 };
    });
  }

  /** Something is held under this id, or was lately. */
  knows(requestId: string): boolean {
    return this.#holds.has(requestId) || this.#ends.knows(requestId);
  }

  use(): { prefill: HoldUse; decode: HoldUse } {
    return { prefill: this.#meters.prefill.use(), decode: this.#meters.decode.use() };
  }

  /** Pins the blocks that the claim stands for, until finished(): by group, in the sequence's order. */
  open(
    requestId: string,
    claim: ReadClaim,
    readerId: string,
  ): { allow: true; blockIds: BlockIds; finished: () => void } | Refusal {
    this.expire();
    const hold = this.#holds.get(requestId);
    if (!hold) return this.#ends.refuse(requestId, claim.held);
    if (!sameClaim(hold.held, claim.held)) return REFUSED;
    if (hold.deadline <= this.#deps.clock.now()) return refusal('expired', requestId);
    if (hold.pendingEnd) return refusal(hold.pendingEnd, requestId);
    const blockIds = provenBlocks(hold, claim.prompt, this.#deps);
    if (!blockIds) return REFUSED;
    hold.readers += 1;
    hold.readerId = readerId;
    let reading = true;
    const finished = () => {
      if (!reading) return;
      reading = false;
      this.#unpin(hold);
    };
    return { allow: true, blockIds, finished };
  }

  readonly gate: ReadGate = (requestId, blockIds, claim, readerId) => {
    const opened = this.open(requestId, claim, readerId);
    if (!opened.allow) return opened;
    if (mayName(blockIds, opened.blockIds, claim.prompt.numTokens, this.#deps)) return opened;
    opened.finished();
    return REFUSED;
  };

  #unpin(hold: Hold): void {
    hold.readers -= 1;
    if (hold.readers > 0) return;
    if (hold.pendingEnd) {
      this.#end(hold.requestId, hold.held, hold.pendingEnd);
      return;
    }
    this.#deadlines.add(hold);
    this.#deps.onDroppable();
  }

  #oldestUnread(which: (hold: Hold) => boolean): Hold | null {
    for (const hold of this.#holds.values()) if (hold.readers === 0 && which(hold)) return hold;
    return null;
  }

  /** null: it is being read. */
  #dueMs(hold: Hold): number | null {
    if (hold.readers > 0) return null;
    return mayBeAbandoned(hold) ? Math.min(hold.deadline, hold.abandonedMs) : hold.deadline;
  }

  #endWhenUnread(hold: Hold, end: HoldEnd): void {
    if (hold.readers === 0) this.#end(hold.requestId, hold.held, end);
    else hold.pendingEnd ??= end;
  }

  #end(requestId: string, held: PrefixClaim, end: HoldEnd): void {
    const hold = this.#holds.get(requestId);
    if (hold) {
      this.#deadlines.remove(hold);
      this.#meters[hold.direction].end(hold.blockIds);
    }
    this.#holds.delete(requestId);
    this.notProcessed(requestId);
    const { clock, leaseMs } = this.#deps;
    this.#ends.remember(requestId, end, held, Math.max(hold?.deadline ?? 0, clock.now() + leaseMs));
    this.#deps.onEnd(requestId, end, hold?.direction ?? null);
  }
}

/** P's for D: D's for P are dropped before. */
const mayBeAbandoned = ({ direction, abandoned }: Hold): boolean => direction === 'prefill' && !abandoned;
