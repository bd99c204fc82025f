/**
 * Worker side of the offloading connector: sends lookups to the store, reads from it, and lets it read offered blocks, which
 * are kept until it has. If the store is gone or does not answer, requests continue without it.
 */
import type { ConnectorOutput, KvConnectorWorker } from '../../engine/kv-connector.ts';
import type { BlockIds, Clock } from '../../engine/types.ts';
import { sumOf } from '../../sum.ts';
import type { StoreFound, StoreTaken } from '../../transport/store-messages.ts';
import { emptyResult } from '../../transport/transfer.ts';
import type {
  BlockStream,
  PeerNotification,
  ReadClaim,
  RemoteAddress,
  ServingTransport,
  StreamGate,
  TransferResult,
} from '../../transport/types.ts';
import { Reports } from '../polled-reports.ts';
import { countPull, noTransfers, type StoreCounters, type TransferEvents } from '../types.ts';
import type { StoreAnswers } from './answers.ts';
import type { Load, Lookup, OffloadingMetadata, Save } from './metadata.ts';

/** A store that has not answered a lookup by then is taken to have nothing. */
const LOOKUP_PATIENCE_MS = 2_000;
/** An offer not answered by then is withdrawn, so that a store that hangs does not keep blocks for ever. */
const OFFER_PATIENCE_MS = 30_000;

export interface OffloadingWorkerDeps extends Partial<TransferEvents> {
  transport: ServingTransport;
  store: RemoteAddress;
  clock: Clock;
  answers: StoreAnswers;
}

interface Offer extends Save {
  requestId: string;
  /** Aborted when the offer ends. */
  revoked: AbortController;
  /** Ms on the engine's clock. */
  offeredMs: number;
  deadlineMs: number;
}

/** The store checks no claims: lookups are by hash. */
const NO_CLAIM: ReadClaim = { held: { numTokens: 0, digest: '' }, prompt: { numTokens: 0, digest: '' } };

export class OffloadingWorkerSide implements KvConnectorWorker<OffloadingMetadata> {
  readonly counters = noTransfers();
  readonly storeCounters: StoreCounters = {
    loads: 0,
    loadedTokens: 0,
    loadedBytes: 0,
    failedLoads: 0,
    offeredBlocks: 0,
    savedBlocks: 0,
    savedBytes: 0,
    savingBlockMs: 0,
    loadMs: 0,
    saveMs: 0,
    unanswered: 0,
    twoHopBytes: 0,
  };
  readonly #deps: OffloadingWorkerDeps;
  readonly #reports: Reports;
  readonly #offers = new Map<string, Offer>();
  readonly #finished = new Map<string, { numBlocks: number; sinceMs: number }>();
  /** Unanswered lookups by lease, with their times in ms. */
  readonly #lookups = new Map<string, { requestId: string; sentMs: number; deadlineMs: number }>();

  constructor(deps: OffloadingWorkerDeps) {
    this.#deps = deps;
    this.#reports = new Reports(deps.clock, () => this.#nextDeadline());
    deps.transport.setHandlers(
      {
        streamGate: this.#streamGate,
        onNotification: (from, notification) => {
          // Only the store may answer lookups and offers.
          if (from === deps.store.engineId) this.#onNotification(notification);
        },
        onNotifyFailed: (_, notification) => this.#onNotifyFailed(notification),
        onPeerGone: () => this.#onStoreGone(),
      },
      deps.store.engineId,
    );
  }

  sendLookup({ requestId, ...lookup }: Lookup): void {
    const { transport, store, clock } = this.#deps;
    const sentMs = clock.now();
    this.#lookups.set(lookup.leaseId, { requestId, sentMs, deadlineMs: sentMs + LOOKUP_PATIENCE_MS });
    transport.notify(store, { kind: 'store_lookup', ...lookup });
    this.#reports.wake();
  }

  startLoadKv(metadata: OffloadingMetadata): void {
    const { transport, store, clock } = this.#deps;
    // First, so that nothing started below reads freed blocks.
    for (const requestId of metadata.revoked) this.#revoke(requestId);
    for (const requestId of metadata.passed) this.#revoke(requestId, 'window');
    for (const leaseId of metadata.released) this.#release(leaseId);
    for (const [requestId, load] of metadata.loads) void this.#load(requestId, load);
    for (const save of metadata.saves) {
      const { requestId, number, hashes, parent, groups = [...this.#bytesOf.keys()] } = save;
      const offerId = `${requestId}/${number}`;
      const offeredMs = clock.now();
      const deadlineMs = offeredMs + OFFER_PATIENCE_MS;
      this.storeCounters.offeredBlocks += hashes.length * groups.length;
      const revoked = new AbortController();
      this.#offers.set(offerId, { ...save, revoked, offeredMs, deadlineMs });
      const optional = { ...(parent ? { parent } : {}), ...(save.groups ? { groups: save.groups } : {}) };
      transport.notify(store, { kind: 'store_offer', offerId, number, hashes, ...optional });
    }
    const sinceMs = clock.now();
    for (const [requestId, numBlocks] of metadata.finished)
      this.#finished.set(requestId, { numBlocks, sinceMs });
    this.#settleFinished();
    this.#reports.wake();
  }

  getFinished(): ConnectorOutput {
    const now = this.#deps.clock.now();
    for (const [leaseId, { deadlineMs }] of this.#lookups) {
      if (deadlineMs > now) continue;
      this.storeCounters.unanswered++;
      this.#onAnswer(leaseId, []);
      // The answer may have been lost, and then the store still keeps the lease.
      this.#release(leaseId);
    }
    for (const [offerId, offer] of this.#offers) if (offer.deadlineMs <= now) this.#endOffer(offerId, offer);
    this.#settleFinished();
    return this.#reports.take();
  }

  waitForChange(signal: AbortSignal): Promise<void> {
    return this.#reports.wait(signal);
  }

  dueMs(): number | null {
    return this.#nextDeadline();
  }

  /** Bytes of a block, by group. */
  get #bytesOf(): readonly number[] {
    return this.#deps.transport.identity.blockBytes;
  }

  #onNotification(notification: PeerNotification): void {
    if (notification.kind === 'store_found') this.#onFound(notification);
    else if (notification.kind === 'store_taken') this.#onTaken(notification);
  }

  #onTaken({ offerId, taken }: StoreTaken): void {
    const offer = this.#offers.get(offerId);
    // The answer came twice, or after the offer's deadline.
    if (!offer) return;
    if (taken.length > 0) this.#saved(offer, taken);
    this.#endOffer(offerId, offer);
    this.#settleFinished();
  }

  #onFound({ leaseId, blockIds, raised, raisedBytes, raisedMs }: StoreFound): void {
    const lookup = this.#lookups.get(leaseId);
    if (lookup) {
      const { requestId, sentMs: startedMs } = lookup;
      const numBlocks = blockIds[0]?.length ?? 0;
      const info = { requestId, startedMs, endedMs: this.#deps.clock.now(), blocks: numBlocks };
      this.#deps.onStored?.({ what: 'store lookup', ...info, raised, raisedBytes, raisedMs });
    }
    this.#onAnswer(leaseId, blockIds);
  }

  #saved({ requestId, offeredMs: startedMs, blockIds }: Offer, taken: StoreTaken['taken']): void {
    const endedMs = this.#deps.clock.now();
    this.storeCounters.savedBlocks += taken.length;
    const bytes = sumOf(taken, ([group]) => this.#bytesOf[group]!);
    this.storeCounters.savedBytes += bytes;
    this.storeCounters.saveMs += endedMs - startedMs;
    const info = { requestId, startedMs, endedMs, blocks: taken.length, bytes };
    const pairs = taken.map(([group, place, remote]) => ({ group, remote, local: blockIds[group]![place]! }));
    this.#deps.onStored?.({ what: 'save', ...info, pairs });
  }

  #onNotifyFailed(notification: PeerNotification): void {
    this.counters.numFailedNotifications++;
    if (notification.kind === 'store_lookup') this.#onAnswer(notification.leaseId, []);
    else if (notification.kind === 'store_offer') {
      const offer = this.#offers.get(notification.offerId);
      if (offer) this.#endOffer(notification.offerId, offer);
      this.#settleFinished();
    }
  }

  #onStoreGone(): void {
    for (const leaseId of [...this.#lookups.keys()]) this.#onAnswer(leaseId, []);
    for (const [offerId, offer] of [...this.#offers]) this.#endOffer(offerId, offer);
    this.#settleFinished();
  }

  #onAnswer(leaseId: string, blockIds: BlockIds): void {
    this.#lookups.delete(leaseId);
    const { answers } = this.#deps;
    if (answers.answer(leaseId, blockIds)) this.#reports.changed();
    // A late answer: release its lease. But not for a duplicate of an answer that is in use.
    else if (blockIds[0] && blockIds[0].length > 0 && !answers.of(leaseId)) this.#release(leaseId);
  }

  #release(leaseId: string): void {
    this.#deps.transport.notify(this.#deps.store, { kind: 'store_release', leaseId });
  }

  /** Gathers already submitted to the device still complete: they run before the blocks are overwritten. */
  #revoke(requestId: string, which: 'all' | 'window' = 'all'): void {
    for (const [offerId, offer] of this.#offers)
      if (offer.requestId === requestId && (which === 'all' || offer.window)) this.#endOffer(offerId, offer);
  }

  #endOffer(offerId: string, { revoked }: Offer): void {
    this.#offers.delete(offerId);
    revoked.abort();
  }

  #settleFinished(): void {
    const saving = new Set([...this.#offers.values()].map(({ requestId }) => requestId));
    for (const [requestId, { numBlocks, sinceMs }] of this.#finished) {
      if (saving.has(requestId)) continue;
      this.#finished.delete(requestId);
      this.storeCounters.savingBlockMs += numBlocks * (this.#deps.clock.now() - sinceMs);
      this.#reports.sent(requestId);
    }
  }

  #nextDeadline(): number | null {
    const offers = [...this.#offers.values()].map(({ deadlineMs }) => deadlineMs);
    const lookups = [...this.#lookups.values()].map(({ deadlineMs }) => deadlineMs);
    const next = Math.min(...lookups, ...offers);
    return Number.isFinite(next) ? next : null;
  }

  readonly #streamGate: StreamGate = (offerId): BlockStream => {
    const offer = this.#offers.get(offerId);
    const ready: BlockStream['ready'] = async (index, signal) => {
      if (signal.aborted) return null;
      const numBlocks = offer?.hashes.length ?? 0;
      if (!offer || offer.revoked.signal.aborted || index >= numBlocks)
        return { outcome: 'declined', message: `offer '${offerId}' has ended.` };
      return { blockIds: offer.blockIds, numBlocks, revoked: offer.revoked.signal };
    };
    return { ready, finished() {} };
  };

  #count({ outcome, bytes, wallMs }: TransferResult, numTokens: number, twice: Load['twice']): void {
    const { storeCounters } = this;
    countPull(this.counters, outcome);
    if (outcome !== 'done') {
      storeCounters.failedLoads++;
      return;
    }
    storeCounters.loads++;
    storeCounters.loadMs += wallMs;
    storeCounters.loadedTokens += numTokens;
    storeCounters.loadedBytes += bytes;
    for (const { group } of twice) storeCounters.twoHopBytes += this.#bytesOf[group]!;
  }

  /** Loads from the store. Every failure is reported as 'declined', so that the tokens are computed. */
  async #load(requestId: string, { leaseId, pairs, numTokens, twice }: Load): Promise<void> {
    const { transport, store: remote, clock, onPull, onTransfer } = this.#deps;
    // Nothing to load: all blocks lie before what the windows see.
    if (pairs.length === 0) {
      this.#release(leaseId);
      this.#reports.received(requestId, null);
      return;
    }
    const startedMs = clock.now();
    onPull?.({ requestId, remote, pairs, streamed: false });
    const read = { remote, remoteRequestId: leaseId, claim: NO_CLAIM, pairs, requestId };
    const result = await transport
      .read(read)
      .catch((error: unknown) => emptyResult('failed', String(error), 0));
    const endedMs = clock.now();
    result.wallMs = endedMs - startedMs;
    result.tokens = numTokens;
    this.#count(result, numTokens, twice);
    onTransfer?.({ requestId, remote, numTokens, startedMs, checkedMs: startedMs, endedMs, result });
    const invalidBlockIds = this.#bytesOf.map((_, each) =>
      pairs.filter(({ group }) => group === each).map(({ local }) => local),
    );
    const { message } = result;
    const failed =
      result.outcome === 'done'
        ? null
        : { requestId, outcome: 'declined' as const, message, invalidBlockIds };
    // If the READ never reached the store, its lease is unused and must be released.
    if (failed) this.#release(leaseId);
    this.#reports.received(requestId, failed);
  }
}
