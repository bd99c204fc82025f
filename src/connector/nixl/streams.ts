/**
 * Streamed prompts: local sequences that are read while they are computed, and their readers. A reader may arrive before its
 * request. It gets blocks as they are computed, and after the request has ended, from the hold. Submits no copies. When blocks
 * are freed, they are revoked, and the reader asks again.
 */
import type { BlockIds, Clock } from '../../engine/types.ts';
import { type ClaimPrefix, type PrefixClaim, sameClaim } from '../../transport/prefix-claim.ts';
import type { BlockStream, ReadClaim, ReadyBlocks, StreamEnd, StreamGate } from '../../transport/types.ts';
import { REFUSED, REMEMBERED_ENDS } from './hold-ends.ts';
import type { HoldTable } from './holds.ts';
import type { ComputedBlocks } from './metadata.ts';

export interface StreamTableDeps {
  holds: HoldTable;
  clock: Clock;
  blockSize: number;
  claim: ClaimPrefix;
  /** How long a reader waits for a request that has not arrived, ms. */
  patienceMs: number;
  /** Called when a reader may have begun to wait for a request without computed blocks. */
  onStarving: () => void;
}

interface Sequence {
  computed: ComputedBlocks;
  /** Claim over the whole prompt. */
  prompt: PrefixClaim;
  revoked: AbortController;
}

/** Held blocks are not revoked while they are being read. */
const NEVER = new AbortController().signal;

export class StreamTable {
  readonly #deps: StreamTableDeps;
  /** By request id, until the request ends. After that its blocks are in a hold, or gone. */
  readonly #sequences = new Map<string, Sequence>();
  /** Requests that ended recently and left nothing to read. */
  readonly #ended = new Set<string>();
  readonly #readers = new Set<StreamReader>();

  constructor(deps: StreamTableDeps) {
    this.#deps = deps;
  }

  /** Updates, or first registers, a request. If there are fewer tokens than before, its previous blocks are revoked. */
  computed(requestId: string, computed: ComputedBlocks): void {
    this.#ended.delete(requestId);
    const before = this.#sequences.get(requestId);
    const shrank = before !== undefined && computed.numTokens < before.computed.numTokens;
    if (shrank) before.revoked.abort();
    const revoked = before && !shrank ? before.revoked : new AbortController();
    const { tokenIds, cacheSalt } = computed;
    const prompt = before?.prompt ?? this.#deps.claim(tokenIds, tokenIds.length, cacheSalt);
    this.#sequences.set(requestId, { computed, prompt, revoked });
    if (this.starving) this.#deps.onStarving();
    this.#wake(requestId);
  }

  /** The request ended, and its blocks are now a hold. Pins it for its current readers. */
  held(requestId: string): void {
    this.#sequences.delete(requestId);
    for (const reader of this.#readers) if (reader.requestId === requestId) reader.pin();
    this.#wake(requestId);
  }

  /** The request ended without leaving a hold. */
  ended(requestId: string): void {
    this.#sequences.get(requestId)?.revoked.abort();
    this.#sequences.delete(requestId);
    this.#ended.add(requestId);
    if (this.#ended.size > REMEMBERED_ENDS) {
      const [oldest] = this.#ended;
      this.#ended.delete(oldest!);
    }
    this.#wake(requestId);
  }

  /** Some reader waits for a known request without computed blocks. */
  get starving(): boolean {
    return [...this.#readers].some(
      ({ requestId }) => this.#sequences.get(requestId)?.computed.numTokens === 0,
    );
  }

  readonly gate: StreamGate = (requestId, claim, readerId) => {
    const { holds, clock, patienceMs, blockSize } = this.#deps;
    const reader: StreamReader = new StreamReader({
      requestId,
      claim,
      readerId,
      holds,
      clock,
      blockSize,
      untilMs: clock.now() + patienceMs,
      sequence: () => this.#sequences.get(requestId) ?? null,
      hasEnded: () => this.#ended.has(requestId),
      onFinished: () => this.#readers.delete(reader),
    });
    this.#readers.add(reader);
    if (this.starving) this.#deps.onStarving();
    return reader;
  };

  #wake(requestId: string): void {
    for (const reader of this.#readers) if (reader.requestId === requestId) reader.wake();
  }
}

interface StreamReaderDeps {
  requestId: string;
  claim: ReadClaim;
  readerId: string;
  holds: HoldTable;
  clock: Clock;
  blockSize: number;
  /** Until when it waits for an unknown request, ms on the engine's clock. */
  untilMs: number;
  sequence: () => Sequence | null;
  hasEnded: () => boolean;
  onFinished: () => void;
}

class StreamReader implements BlockStream {
  readonly requestId: string;
  readonly #deps: StreamReaderDeps;
  #pinned: { blockIds: BlockIds; finished: () => void } | null = null;
  /** Called when the sequence may have changed. */
  wake: () => void = () => {};

  constructor(deps: StreamReaderDeps) {
    this.#deps = deps;
    this.requestId = deps.requestId;
  }

  async ready(index: number, signal: AbortSignal): Promise<ReadyBlocks | StreamEnd | null> {
    for (;;) {
      if (signal.aborted) return null;
      const result = this.#poll(index);
      if (result) return result;
      await this.#change(signal);
    }
  }

  finished(): void {
    this.#pinned?.finished();
    this.#deps.onFinished();
  }

  /** Pins the hold and returns null, or returns why it cannot be read. */
  pin(): StreamEnd | null {
    const { holds, requestId, claim, readerId } = this.#deps;
    const opened = holds.open(requestId, claim, readerId);
    if (!opened.allow) return opened;
    this.#pinned = opened;
    return null;
  }

  /** null if there is nothing new yet. */
  #poll(index: number): ReadyBlocks | StreamEnd | null {
    const { requestId, claim, holds, blockSize, sequence, hasEnded, clock, untilMs } = this.#deps;
    const underWay = this.#pinned ? null : sequence();
    if (underWay) {
      const { computed, prompt, revoked } = underWay;
      if (!sameClaim(prompt, claim.held) || !sameClaim(prompt, claim.prompt)) return REFUSED;
      const numBlocks = Math.floor(computed.numTokens / blockSize);
      return numBlocks > index ? { blockIds: computed.blockIds, numBlocks, revoked: revoked.signal } : null;
    }
    const end = (outcome: StreamEnd['outcome'], why: string): StreamEnd => {
      return { outcome, message: `request '${requestId}' at the holder: ${why}.` };
    };
    if (!this.#pinned) {
      if (hasEnded()) return end('declined', 'it ended before its prompt was computed');
      if (!holds.knows(requestId)) {
        return clock.now() < untilMs ? null : end('failed', 'it has not arrived');
      }
      const refusal = this.pin();
      if (refusal) return refusal;
    }
    const { blockIds } = this.#pinned!;
    const numBlocks = Math.max(...blockIds.map((ids) => ids.length));
    if (index < numBlocks) return { blockIds, numBlocks, revoked: NEVER };
    return end('failed', `it has ${numBlocks} blocks, but block ${index} was requested`);
  }

  /** Resolves when there may be news, when the reader's patience ends, or when the signal aborts. */
  async #change(signal: AbortSignal): Promise<void> {
    const { clock, untilMs, sequence } = this.#deps;
    const news = new AbortController();
    const stop = () => news.abort();
    signal.addEventListener('abort', stop);
    this.wake = stop;
    if (sequence()) await new Promise((resolve) => news.signal.addEventListener('abort', resolve));
    else await clock.sleep(Math.max(0, untilMs - clock.now()), news.signal);
    signal.removeEventListener('abort', stop);
  }
}
