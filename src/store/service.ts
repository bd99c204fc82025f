/**
 * The store's service for engines: answers lookups, keeps blocks while they are read, and reads offered blocks that it lacks.
 * Knows blocks only by hash and KV cache group. The transport moves the bytes; the catalog says where they are.
 */
import type { KvCacheSpec } from '../config/engine.ts';
import type { Prefetch } from '../config/store.ts';
import { type BlockId, type Clock, NULL_BLOCK } from '../engine/types.ts';
import { sumOf } from '../sum.ts';
import type { StoreLookup, StoreMessage, StoreOffer } from '../transport/store-messages.ts';
import type {
  BlockStream,
  PeerNotification,
  ReadClaim,
  ReadGate,
  RemoteAddress,
  ServingTransport,
} from '../transport/types.ts';
import { Arrivals } from './arrivals.ts';
import { BringUp, type LowerTier, NOTHING_BELOW } from './bring-up.ts';
import type { BlockCatalog } from './catalog.ts';
import { heldPrefix, keysOf } from './held-prefix.ts';
import { partsOf, type StoreKey, storeKey } from './keys.ts';
import { OfferTracker } from './offer-tracker.ts';

export interface StoreServiceDeps {
  transport: ServingTransport;
  catalog: BlockCatalog;
  clock: Pick<Clock, 'now' | 'sleep'>;
  /** null or absent if there is only memory. */
  lower?: LowerTier | null;
  /** Default: wait_complete. */
  prefetch?: Prefetch | undefined;
}

export interface StoreServiceCounters {
  /** Offers, offered blocks that were read (taken), and offered blocks that were already there (known). */
  offers: number;
  taken: number;
  known: number;
  /** Offered blocks that were not received: revoked or lost. */
  lost: number;
  /** Leases that were read. */
  loads: number;
  /** Blocks found by a lookup that were brought up from lower tiers for it. */
  raised: number;
  /** Those of them that came from a tier below the first one below memory. */
  raisedFar: number;
}

/** A lease that has been neither read nor released by then ends: a message about it must have been lost. */
const LEASE_MS = 600_000;

interface Lease {
  readerId: string;
  /** Ms on the store's clock. */
  expiresMs: number;
  keys: readonly StoreKey[];
  /** The store's block ids, by group. */
  blocks: readonly ReadonlySet<BlockId>[];
}

/** An offered block that will be read. */
interface Taken {
  key: StoreKey;
  /** The block before it. */
  parent: StoreKey | null;
  group: number;
  place: number;
  slot: number;
}

/** READs from a store need no claims: blocks are identified by hash. */
const NO_CLAIM: ReadClaim = { held: { numTokens: 0, digest: '' }, prompt: { numTokens: 0, digest: '' } };

/** Ids are unique per engine only. */
const nameOf = (engineId: string, id: string): string => `${engineId} ${id}`;

export class StoreService {
  readonly counters: StoreServiceCounters = {
    offers: 0,
    taken: 0,
    known: 0,
    lost: 0,
    loads: 0,
    raised: 0,
    raisedFar: 0,
  };
  readonly #transport: ServingTransport;
  readonly #catalog: BlockCatalog;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #lower: LowerTier | null;
  readonly #bringUp: BringUp | null;
  /** Default for lookups: every KV cache group must have the whole prefix. */
  readonly #allOfGroups: readonly KvCacheSpec[];
  readonly #engines = new Map<string, RemoteAddress>();
  readonly #leases = new Map<string, Lease>();
  readonly #arrivals: Arrivals;
  readonly #offers: OfferTracker;
  /** Unfinished READs of offers, by engine and offer. */
  readonly #reading = new Map<string, Map<string, AbortController>>();

  constructor({ transport, catalog, clock, lower = null, prefetch = 'wait_complete' }: StoreServiceDeps) {
    this.#transport = transport;
    this.#clock = clock;
    this.#catalog = catalog;
    this.#arrivals = new Arrivals(catalog);
    this.#offers = new OfferTracker(clock);
    this.#lower = lower;
    const { blockSize } = transport.identity;
    this.#bringUp =
      lower && new BringUp({ catalog, arrivals: this.#arrivals, clock, lower, prefetch, blockSize });
    this.#allOfGroups = transport.identity.blockBytes.map(() => ({ kind: 'full' }));
    transport.setHandlers({
      gate: this.#gate,
      streamGate: () => NOTHING_STREAMED,
      onNotification: (from, notification) => this.#onNotification(from, notification),
      onPeerGone: (engineId) => this.#gone(engineId),
    });
  }

  /** From now on, this engine gets answers. */
  addEngine(address: RemoteAddress): void {
    this.#engines.set(address.engineId, address);
  }

  /** From now on, engines may number their offers from 1 again. */
  forgetOffers(): void {
    this.#offers.clear();
  }

  /** Number of leases that have not been read yet. */
  get leases(): number {
    return this.#leases.size;
  }

  #onNotification(from: string, notification: PeerNotification): void {
    this.#endOldLeases();
    switch (notification.kind) {
      case 'store_lookup':
        void this.#lookup(from, notification);
        break;
      case 'store_release':
        this.#endLease(nameOf(from, notification.leaseId));
        break;
      case 'store_offer':
        void this.#take(from, notification);
    }
  }

  async #lookup(from: string, lookup: StoreLookup): Promise<void> {
    const { leaseId, hashes, wait, after, worthMs = null, groups = this.#allOfGroups, chunk = 1 } = lookup;
    if (after && this.#engines.has(after.engineId)) await this.#offers.until(after);
    const query = { hashes, groups, chunk, blockSize: this.#transport.identity.blockSize };
    const begunMs = this.#clock.now();
    const { kept, up, far, raised } = (await this.#bringUp?.prefixOf(query, worthMs)) ?? NOTHING_BELOW;
    const raisedMs = raised.length > 0 ? this.#clock.now() - begunMs : 0;
    if (wait) await this.#arrivals.ofPrefix(query);
    const blockIds = heldPrefix(query, (key) => {
      const slot = this.#catalog.slotOf(key);
      return slot === null ? null : slot + 1;
    });
    const keys = keysOf(blockIds, hashes);
    const { length } = blockIds[0]!;
    this.#catalog.countLookup(hashes.length, length);
    if (up.size > 0) {
      const found = hashes.slice(0, length);
      const count = (keys: ReadonlySet<StoreKey>): number =>
        found.filter((hash) => groups.some((_, group) => keys.has(storeKey(hash, group)))).length;
      this.counters.raised += count(up);
      this.counters.raisedFar += count(far);
    }
    const name = nameOf(from, leaseId);
    this.#endLease(name);
    this.#catalog.prepareLoad(keys);
    this.#catalog.completeLoad(kept);
    if (keys.length > 0 && this.#engines.has(from)) {
      const expiresMs = this.#clock.now() + LEASE_MS;
      const blocks = blockIds.map((ids) => new Set(ids));
      this.#leases.set(name, { readerId: from, expiresMs, keys, blocks });
    } else this.#catalog.completeLoad(keys);
    const { blockBytes } = this.#transport.identity;
    const raisedBytes = sumOf(raised, (key) => blockBytes[partsOf(key).group]!);
    this.#say(from, { kind: 'store_found', leaseId, blockIds, raised: raised.length, raisedBytes, raisedMs });
  }

  /** Reads the offered blocks that the store lacks, as far as there is room, and answers the offer. */
  async #take(from: string, offer: StoreOffer): Promise<void> {
    this.counters.offers++;
    this.#offers.received(from, offer.number);
    // A duplicate: answering it now would end the offer while it is being read.
    if (this.#reading.get(from)?.has(offer.offerId)) return;
    const remote = this.#engines.get(from);
    const taken = remote ? this.#roomFor(offer) : [];
    let succeeded = false;
    if (remote && taken.length > 0) succeeded = await this.#read(remote, offer.offerId, taken);
    for (const { key, slot, parent } of taken) {
      this.#catalog.completeStore(key, succeeded);
      if (succeeded) this.#lower?.stored(key, slot, parent);
      this.#arrivals.ended(key);
    }
    this.counters[succeeded ? 'taken' : 'lost'] += taken.length;
    const read = succeeded ? taken.map(({ group, place, slot }) => [group, place, slot + 1] as const) : [];
    this.#say(from, { kind: 'store_taken', offerId: offer.offerId, taken: read });
  }

  /** Allocates slots, sorted by group as a READ requires. Does not evict earlier blocks of the same sequence. */
  #roomFor(offer: StoreOffer): Taken[] {
    const { hashes, parent, groups = [...this.#allOfGroups.keys()] } = offer;
    const catalog = this.#catalog;
    const kept = groups.flatMap((group) => {
      const absent = hashes.findIndex((hash) => catalog.state(storeKey(hash, group)) === 'absent');
      const last = absent === 0 ? parent : hashes.at(absent < 0 ? -1 : absent - 1);
      return last ? catalog.keepText(storeKey(last, group)) : [];
    });
    const taken = this.#takeRoom({ ...offer, groups });
    catalog.completeLoad(kept);
    return taken.toSorted((a, b) => a.group - b.group);
  }

  /** Stops at the first block without room: later blocks are useless without it. */
  #takeRoom({ hashes, parent, groups }: StoreOffer & { groups: readonly number[] }): Taken[] {
    const taken: Taken[] = [];
    let before = parent;
    for (const [place, hash] of hashes.entries()) {
      for (const group of groups) {
        const key = storeKey(hash, group);
        if (this.#catalog.state(key) !== 'absent') {
          this.counters.known++;
          continue;
        }
        const parentKey = before ? storeKey(before, group) : null;
        const slot = this.#catalog.prepareStore(key, parentKey);
        if (slot === null) return taken;
        taken.push({ key, parent: parentKey, group, place, slot });
      }
      before = hash;
    }
    return taken;
  }

  async #read(remote: RemoteAddress, offerId: string, blocks: readonly Taken[]): Promise<boolean> {
    const reading = new AbortController();
    const { engineId } = remote;
    const ofEngine = this.#reading.get(engineId) ?? new Map<string, AbortController>();
    this.#reading.set(engineId, ofEngine.set(offerId, reading));
    const pairs = blocks.map(({ group, place, slot }) => ({ group, remote: place, local: slot + 1 }));
    const { outcome } = await this.#transport.read({
      ...{ remote, remoteRequestId: offerId, claim: NO_CLAIM, pairs, requestId: offerId },
      ...{ streamed: true, signal: reading.signal },
    });
    ofEngine.delete(offerId);
    return outcome === 'done';
  }

  readonly #gate: ReadGate = (leaseId, blockIds, _claim, readerId) => {
    const name = nameOf(readerId, leaseId);
    const lease = this.#leases.get(name);
    const isOf = (id: BlockId, group: number): boolean =>
      id !== NULL_BLOCK && lease?.blocks[group]?.has(id) === true;
    if (!lease || !blockIds.every((ids, group) => ids.every((id) => isOf(id, group))))
      return {
        allow: false,
        outcome: 'declined',
        message: `lease '${leaseId}' does not exist or does not have these blocks.`,
      };
    // From here on, the READ keeps the blocks, and the lease cannot be used again.
    this.#leases.delete(name);
    this.counters.loads++;
    return { allow: true, finished: () => this.#catalog.completeLoad(lease.keys) };
  };

  /** Ends expired leases. Called on each notification, since they matter only if others need the room. */
  #endOldLeases(): void {
    const now = this.#clock.now();
    for (const [name, { expiresMs }] of this.#leases) if (expiresMs <= now) this.#endLease(name);
  }

  #endLease(name: string): void {
    const lease = this.#leases.get(name);
    if (!lease) return;
    this.#leases.delete(name);
    this.#catalog.completeLoad(lease.keys);
  }

  #gone(engineId: string): void {
    this.#engines.delete(engineId);
    this.#offers.engineGone(engineId);
    for (const [name, { readerId }] of this.#leases) if (readerId === engineId) this.#endLease(name);
    for (const reading of this.#reading.get(engineId)?.values() ?? []) reading.abort();
    this.#reading.delete(engineId);
  }

  #say(to: string, message: StoreMessage): void {
    const remote = this.#engines.get(to);
    if (remote) this.#transport.notify(remote, message);
  }
}

const NOTHING_STREAMED: BlockStream = {
  ready: async () => ({ outcome: 'declined', message: 'a store does not stream blocks.' }),
  finished() {},
};
