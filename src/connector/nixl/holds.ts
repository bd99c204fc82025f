/**
 * The blocks that this engine keeps for readers after their requests ended, and until when: NIXL's rules for the holder
 * (lease, TTL, heartbeats, notifications), with pins: blocks under a READ stay until it ends, whatever else happens. Who
 * may read, renew or end a hold is decided here, by what the holder knows of its tokens, salt and blocks: parameters
 * come from clients, who may have made them up. Frees nothing itself: it reports whose hold has ended.
 */
import type { BlockId, BlockIds, Clock } from '../../engine/types.ts';
import { type ClaimPrefix, type PrefixClaim, sameClaim } from '../../transport/prefix-claim.ts';
import type { HoldRef, ReadClaim, ReadGate, StreamEnd } from '../../transport/types.ts';
import { HoldMeter, type HoldUse } from '../hold-meter.ts';
import type { ReaderHolds } from '../types.ts';
import type { SendRequest } from './metadata.ts';

/** Ends that are remembered, to tell a late reader why its blocks are gone, and nobody else. */
export const REMEMBERED_ENDS = 4096;

type HoldEnd = 'read' | 'expired' | 'dropped' | 'released';

interface Hold extends SendRequest {
  requestId: string;
  /** Of all its tokens. */
  held: PrefixClaim;
  /** READs being served now. */
  readers: number;
  /** Decided while it was being read; takes effect with the last READ's end. */
  pendingEnd: HoldEnd | null;
}

type Refusal = { allow: false } & StreamEnd;

/** The whole answer to whoever is not the hold's reader: which of what was said is wrong is not told. */
export const REFUSED: Refusal = {
  allow: false,
  outcome: 'refused',
  message:
    'nothing is held that the kv_transfer_params, the prompt and its cache_salt match: send the parameters as they came, once.',
};

export interface HoldTableDeps {
  clock: Clock;
  blockSize: number;
  claim: ClaimPrefix;
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
  /** Of toProcess: those whose reader said it is done before the hold came, with what it says is held. */
  readonly #doneEarly = new Map<string, PrefixClaim>();
  readonly #recentEnds = new Map<string, { end: HoldEnd; held: PrefixClaim }>();
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
    const { tokenIds, cacheSalt } = request;
    const held = this.#deps.claim(tokenIds, tokenIds.length, cacheSalt);
    const known = this.#toProcess.has(requestId);
    const doneEarly = this.#doneEarly.get(requestId);
    if (!known || (doneEarly && sameClaim(doneEarly, held))) {
      this.#end(requestId, held, known ? 'read' : 'released');
      return;
    }
    this.#holds.set(requestId, { ...request, requestId, held, readers: 0, pendingEnd: null });
    this.#meters[request.direction].begin(request.blockIds);
    this.#deps.onDeadline();
  }

  doneReading({ requestId, held }: HoldRef): void {
    const hold = this.#holds.get(requestId);
    if (hold && sameClaim(hold.held, held)) this.#endWhenUnread(hold, 'read');
    else if (!hold && this.#toProcess.has(requestId)) this.#doneEarly.set(requestId, held);
  }

  /** Only leases are renewed: a decode hold has a plain TTL, as in vLLM. */
  heartbeat({ requestId, held }: HoldRef): void {
    const hold = this.#holds.get(requestId);
    if (hold?.direction !== 'prefill' || !sameClaim(hold.held, held)) return;
    hold.deadline = Math.max(hold.deadline, this.#deps.clock.now() + this.#deps.extensionMs);
    this.#deps.onDeadline();
  }

  release(requestId: string): void {
    const hold = this.#holds.get(requestId);
    if (hold) this.#endWhenUnread(hold, 'released');
  }

  /** D's holds for P: P can compute what it does not get. P's for D only where a stream starves. */
  dropOldest(): string | null {
    const unread = [...this.#holds.values()].filter(({ readers }) => readers === 0);
    const mayGo =
      unread.find(({ direction }) => direction === 'decode') ??
      (this.#deps.streamStarves() ? unread[0] : undefined);
    if (mayGo) this.#end(mayGo.requestId, mayGo.held, 'dropped');
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
      if (hold.deadline <= now && hold.readers === 0) this.#end(hold.requestId, hold.held, 'expired');
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

  /** Something is held under this id, or was lately. */
  knows(requestId: string): boolean {
    return this.#holds.has(requestId) || this.#recentEnds.has(requestId);
  }

  use(): { prefill: HoldUse; decode: HoldUse } {
    return { prefill: this.#meters.prefill.use(), decode: this.#meters.decode.use() };
  }

  /** Pins the blocks that the claim stands for, until finished(): by group, in the sequence's order. */
  open(
    requestId: string,
    claim: ReadClaim,
  ): { allow: true; blockIds: BlockIds; finished: () => void } | Refusal {
    this.expire();
    const hold = this.#holds.get(requestId);
    if (!hold) return this.#refuseEnded(requestId, claim.held);
    if (!sameClaim(hold.held, claim.held)) return REFUSED;
    if (hold.deadline <= this.#deps.clock.now()) return refusal('expired', requestId);
    if (hold.pendingEnd) return refusal(hold.pendingEnd, requestId);
    const blockIds = this.#blocksOf(hold, claim.prompt);
    if (!blockIds) return REFUSED;
    hold.readers += 1;
    let reading = true;
    const finished = () => {
      if (!reading) return;
      reading = false;
      this.#unpin(hold);
    };
    return { allow: true, blockIds, finished };
  }

  readonly gate: ReadGate = (requestId, blocks, claim) => {
    const opened = this.open(requestId, claim);
    if (!opened.allow || areLast(blocks, opened.blockIds)) return opened;
    opened.finished();
    return REFUSED;
  };

  /** Those of the prompt's first tokens; null when they are not the hold's first tokens too. */
  #blocksOf({ tokenIds, cacheSalt, blockIds }: Hold, prompt: PrefixClaim): BlockIds | null {
    const { numTokens } = prompt;
    const { claim, blockSize } = this.#deps;
    if (numTokens > tokenIds.length || !sameClaim(claim(tokenIds, numTokens, cacheSalt), prompt)) return null;
    return blockIds.map((ids) => ids.slice(0, Math.ceil(numTokens / blockSize)));
  }

  #unpin(hold: Hold): void {
    hold.readers -= 1;
    if (hold.readers > 0) return;
    if (hold.pendingEnd) this.#end(hold.requestId, hold.held, hold.pendingEnd);
    else this.#deps.onUnread();
  }

  #endWhenUnread(hold: Hold, end: HoldEnd): void {
    if (hold.readers === 0) this.#end(hold.requestId, hold.held, end);
    else hold.pendingEnd ??= end;
  }

  #end(requestId: string, held: PrefixClaim, end: HoldEnd): void {
    const hold = this.#holds.get(requestId);
    if (hold) this.#meters[hold.direction].end(hold.blockIds);
    this.#holds.delete(requestId);
    this.notProcessed(requestId);
    this.#recentEnds.delete(requestId);
    this.#recentEnds.set(requestId, { end, held });
    if (this.#recentEnds.size > REMEMBERED_ENDS) {
      const [oldest] = this.#recentEnds.keys();
      this.#recentEnds.delete(oldest!);
    }
    this.#deps.onEnd(requestId, end);
  }

  #refuseEnded(requestId: string, held: PrefixClaim): Refusal {
    const ended = this.#recentEnds.get(requestId);
    return ended && sameClaim(ended.held, held) ? refusal(ended.end, requestId) : REFUSED;
  }
}

/** Told to the hold's own reader. What was read to its end was that reader's: who comes now is another. */
function refusal(end: HoldEnd, requestId: string): Refusal {
  const because = (outcome: StreamEnd['outcome'], why: string): Refusal => {
    return { allow: false, outcome, message: `request '${requestId}' at the holder: ${why}.` };
  };
  switch (end) {
    case 'dropped':
      return because('declined', 'its blocks were freed because the pool was full');
    case 'released':
      return because('declined', 'its blocks were released');
    case 'expired':
      return because('expired', 'its time to be read has passed');
    case 'read':
      return REFUSED;
  }
}

/** Whether these are, by group, the last of the sequence's blocks: a reader leaves out what it has from the start on. */
function areLast(blocks: readonly { group: number; blockId: BlockId }[], sequence: BlockIds): boolean {
  const asked = sequence.map((_, group) => blocks.filter((block) => block.group === group));
  const same = asked.every((list, group) => {
    const last = sequence[group]!.slice(-list.length);
    return list.length === 0 || list.every(({ blockId }, i) => blockId === last[i]);
  });
  return same && asked.flat().length === blocks.length;
}
