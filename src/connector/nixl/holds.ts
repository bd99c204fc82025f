/**
 * The table of holds: blocks that this engine keeps for readers after their requests ended. Implements the holder's side of
 * the NIXL connector (lease, TTL, heartbeats, notifications). Blocks are pinned during a READ: they stay until it ends.
 * Whether a reader may read (read-access.ts), renew or end a hold depends on what the holder itself knows of its tokens, salt
 * and blocks, because kv_transfer_params come from clients, who could forge them. Frees no blocks: it reports ended holds.
 */
import type { Pressure } from '../../engine/kv-connector.ts';
import type { BlockIds, Clock } from '../../engine/types.ts';
import { type PrefixClaim, sameClaim } from '../../transport/prefix-claim.ts';
import type { HoldRef, ReadClaim, ReadGate } from '../../transport/types.ts';
import { HoldMeter, type HoldUse } from '../hold-meter.ts';
import type { ConnectorDeps, ReaderHolds } from '../types.ts';
import { Deadlines } from './deadlines.ts';
import { type HoldEnd, HoldEnds, REFUSED, type Refusal, refusal } from './hold-ends.ts';
import type { SendRequest } from './metadata.ts';
import { mayRead, provenBlocks, type ReadRules } from './read-access.ts';

interface Hold extends SendRequest {
  requestId: string;
  /** Claim over all its tokens. */
  held: PrefixClaim;
  /** Number of READs being served. */
  readers: number;
  /** An end that was decided during a READ. Takes effect when the last READ ends. */
  pendingEnd: HoldEnd | null;
  /** The engine that last read it or sent a heartbeat for it; null if none has. */
  readerId: string | null;
  /** For P's holds: when D's heartbeat is so late that the hold counts as abandoned, ms on the engine's clock. */
  abandonedMs: number;
  /** abandonedMs has passed and been reported. */
  abandoned: boolean;
  /** Sequence number of creation. */
  order: number;
}

export interface HoldTableDeps extends ReadRules {
  clock: Clock;
  /** Length of a lease, ms. Readers send a heartbeat every sixth of it; each makes the hold last two thirds of it or more. */
  leaseMs: number;
  /** Called once per ended hold, and for requests that hold() ended immediately; their direction is null. */
  onEnd: (requestId: string, end: HoldEnd, direction: SendRequest['direction'] | null) => void;
  /** Called when nextDeadline() may have changed. */
  onDeadline: () => void;
  /** Called when a hold has become droppable. */
  onDroppable: () => void;
  /** Whether a streamed read waits for a request without blocks. Then P's holds may be dropped too, to let it be computed. */
  streamStarves: () => boolean;
  keptElsewhere?: ConnectorDeps['keptElsewhere'];
}

export class HoldTable implements ReaderHolds {
  readonly #deps: HoldTableDeps;
  /** By request id, oldest first. */
  readonly #holds = new Map<string, Hold>();
  /** Requests that have been scheduled and may later hold blocks (vLLM's _reqs_to_process). */
  readonly #toProcess = new Set<string>();
  /** Requests in #toProcess whose reader reported that it is done before the hold existed, with the reader's claim. */
  readonly #doneEarly = new Map<string, PrefixClaim>();
  /** Requests in #toProcess that were released before the hold existed: they had been stopped, and the step goes on. */
  readonly #releasedEarly = new Set<string>();
  readonly #ends: HoldEnds;
  /** Deadlines of the holds that are not being read. */
  readonly #deadlines = new Deadlines<Hold>((hold) => this.#dueMs(hold));
  #created = 0;
  readonly #meters: Record<SendRequest['direction'], HoldMeter>;

  constructor(deps: HoldTableDeps) {
    this.#deps = deps;
    this.#ends = new HoldEnds(deps.clock);
    this.#meters = { prefill: new HoldMeter(deps.clock), decode: new HoldMeter(deps.clock) };
  }

  process(requestId: string): void {
    this.#toProcess.add(requestId);
  }

  /** The request ended without leaving anything to read. */
  notProcessed(requestId: string): void {
    this.#toProcess.delete(requestId);
    this.#doneEarly.delete(requestId);
    this.#releasedEarly.delete(requestId);
  }

  /** Creates a hold. It ends immediately if the request was never announced or is released, or if its reader is done. */
  hold(requestId: string, request: SendRequest): void {
    const { blockIds, tokenIds, cacheSalt, deadline, direction } = request;
    const held = this.#deps.claim(tokenIds, tokenIds.length, cacheSalt);
    const known = this.#toProcess.has(requestId);
    const doneEarly = this.#doneEarly.get(requestId);
    const isRead = known && doneEarly !== undefined && sameClaim(doneEarly, held);
    if (!known || isRead || this.#releasedEarly.has(requestId)) {
      this.#end(requestId, held, isRead ? 'read' : 'released');
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
      order: this.#created++,
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

  /** Renews a lease. Ignored for decode holds, which have a plain TTL as in vLLM, and if the claim does not match. */
  heartbeat({ requestId, held }: HoldRef, readerId: string): void {
    const hold = this.#holds.get(requestId);
    if (hold?.direction !== 'prefill' || !sameClaim(hold.held, held)) return;
    const now = this.#deps.clock.now();
    const { leaseMs } = this.#deps;
    hold.deadline = Math.max(hold.deadline, now + (leaseMs * 2) / 3);
    hold.readerId = readerId;
    hold.abandonedMs = now + leaseMs / 3;
    hold.abandoned = false;
    // The new abandonedMs may be earlier than the time it is queued for.
    this.#deadlines.add(hold);
    this.#deps.onDeadline();
  }

  release(requestId: string): void {
    const hold = this.#holds.get(requestId);
    if (hold) this.#endWhenUnread(hold, 'released');
    else if (this.#toProcess.has(requestId)) this.#releasedEarly.add(requestId);
  }

  /** The reader's engine is gone. Blocks stay pinned until the device has finished submitted gathers. */
  readerGone(readerId: string): void {
    for (const hold of [...this.#holds.values()])
      if (hold.readerId === readerId) this.#endWhenUnread(hold, 'released');
  }

  /**
   * First drops D's holds for P, since P can recompute the tokens. Next, P's holds for D that are abandoned: D's heartbeats are
   * overdue, and D can recompute too. P's other holds go only if nothing can proceed and a streamed read is starving.
   */
  dropOldest(pressure: Pressure): string | null {
    const now = this.#deps.clock.now();
    const starves = pressure === 'stuck' && this.#deps.streamStarves();
    const droppable =
      this.#oldestUnread(({ direction }) => direction === 'decode') ??
      this.#oldestUnread(({ abandonedMs }) => starves || abandonedMs <= now);
    if (droppable) this.#end(droppable.requestId, droppable.held, 'dropped');
    return droppable?.requestId ?? null;
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

  /** Ends holds that are due and not being read, oldest first. */
  expire(): void {
    const now = this.#deps.clock.now();
    const next = this.#deadlines.nextMs();
    if (next === null || next > now) return;
    for (const hold of this.#deadlines.take(now).sort((a, b) => a.order - b.order)) {
      if (hold.deadline <= now) this.#end(hold.requestId, hold.held, 'expired');
      else {
        // Due before its deadline, so it has just become abandoned.
        hold.abandoned = true;
        this.#deadlines.add(hold);
        this.#deps.onDroppable();
      }
    }
  }

  /** When expire() will next have something to do, ms on the engine's clock; null if not before something changes. */
  nextDeadline(): number | null {
    return this.#deadlines.nextMs();
  }

  list() {
    return [...this.#holds.values()].map(({ requestId, blockIds, direction, deadline, readers }) => {
      return { requestId, blockIds, direction, deadline, reading: readers > 0 };
    });
  }

  /** Whether there is, or recently was, a hold with this id. */
  knows(requestId: string): boolean {
    return this.#holds.has(requestId) || this.#ends.knows(requestId);
  }

  use(): { prefill: HoldUse; decode: HoldUse } {
    return { prefill: this.#meters.prefill.use(), decode: this.#meters.decode.use() };
  }

  /** Pins the claimed blocks until finished() is called. Returns them by group in sequence order, or a refusal. */
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
    if (mayRead(blockIds, opened.blockIds, claim.prompt.numTokens, this.#deps)) return opened;
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

  /** Of those whose end would free blocks. */
  #oldestUnread(which: (hold: Hold) => boolean): Hold | null {
    for (const hold of this.#holds.values())
      if (hold.readers === 0 && which(hold) && !this.#deps.keptElsewhere?.(hold.requestId)) return hold;
    return null;
  }

  /** null while it is being read. */
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

/** Only P's holds for D: D's holds for P may be dropped at any time. */
const mayBeAbandoned = ({ direction, abandoned }: Hold): boolean => direction === 'prefill' && !abandoned;
