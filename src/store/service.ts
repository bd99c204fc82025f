/**
 * A store among engines: answers what it has, keeps it while it is read, and reads what it lacks of what it is offered. Knows
 * blocks by their hashes and KV cache groups alone; the transport brings the bytes, the catalog says where they lie.
 */
import type { KvCacheSpec } from '../config/engine.ts';
import type { Prefetch } from '../config/store.ts';
import type { BlockHash } from '../engine/block-hash.ts';
import { type BlockId, type Clock, NULL_BLOCK } from '../engine/types.ts';
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
import { type StoreKey, storeKey } from './keys.ts';
import { OffersSeen } from './offers-seen.ts';

export interface StoreServiceDeps {
  transport: ServingTransport;
  catalog: BlockCatalog;
  clock: Pick<Clock, 'now' | 'sleep'>;
  /** null or absent: there is memory only. */
  lower?: LowerTier | null;
  /** Absent: wait_complete. */
  prefetch?: Prefetch | undefined;
}

export interface StoreServiceCounters {
  /** Offers, and those of their blocks that were read; those that were there are in `known`. */
  offers: number;
  taken: number;
  known: number;
  /** Offered blocks that did not come: revoked, or lost. */
  lost: number;
  /** Leases that were read. */
  loads: number;
  /** Blocks found by a lookup that were brought up for it. */
  raised: number;
}

/** A reader that has not begun by then, nor given its lease back, was not told of it, or was not heard. */
const LEASE_MS = 600_000;

interface Lease {
  readerId: string;
  /** Own clock, milliseconds. */
  expiresMs: number;
  keys: readonly StoreKey[];
  /** By group. */
  blocks: readonly ReadonlySet<BlockId>[];
}

/** A block of an offer that is to be read. */
interface Taken {
  key: StoreKey;
  /** The block before it. */
  parent: StoreKey | null;
  group: number;
  place: number;
  slot: number;
}

/** Blocks are named by hashes, which their reader knows: nothing else is to be shown. */
const NO_CLAIM: ReadClaim = { held: { numTokens: 0, digest: '' }, prompt: { numTokens: 0, digest: '' } };

/** Ids that engines choose are theirs alone. */
const nameOf = (engineId: string, id: string): string => `${engineId} ${id}`;

export class StoreService {
  readonly counters: StoreServiceCounters = { offers: 0, taken: 0, known: 0, lost: 0, loads: 0, raised: 0 };
  readonly #transport: ServingTransport;
  readonly #catalog: BlockCatalog;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #lower: LowerTier | null;
  readonly #bringUp: BringUp | null;
  /** By KV cache group: where nothing else is said, each has all. */
  readonly #allOfGroups: readonly KvCacheSpec[];
  readonly #engines = new Map<string, RemoteAddress>();
  readonly #leases = new Map<string, Lease>();
  readonly #arrivals: Arrivals;
  readonly #offersSeen: OffersSeen;
  /** READs of offers under way, by their engine and offer. */
  readonly #reading = new Map<string, Map<string, AbortController>>();

  constructor({ transport, catalog, clock, lower = null, prefetch = 'wait_complete' }: StoreServiceDeps) {
    this.#transport = transport;
    this.#clock = clock;
    this.#catalog = catalog;
    this.#arrivals = new Arrivals(catalog);
    this.#offersSeen = new OffersSeen(clock);
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

  /** From now on it is answered. */
  addEngine(address: RemoteAddress): void {
    this.#engines.set(address.engineId, address);
  }

  /** Blocks kept for readers that have not read yet. */
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
    if (after && this.#engines.has(after.engineId)) await this.#offersSeen.until(after);
    const asked = { hashes, groups, chunk, blockSize: this.#transport.identity.blockSize };
    const begunMs = this.#clock.now();
    const { kept, up, raised } = (await this.#bringUp?.prefixOf(asked, worthMs)) ?? NOTHING_BELOW;
    const raisedMs = raised > 0 ? this.#clock.now() - begunMs : 0;
    if (wait) await this.#arrivals.ofPrefix(asked);
    const blockIds = heldPrefix(asked, (key) => {
      const slot = this.#catalog.slotOf(key);
      return slot === null ? null : slot + 1;
    });
    const keys = keysOf(blockIds, hashes);
    const { length } = blockIds[0]!;
    this.#catalog.countLookup(hashes.length, length);
    if (up.size > 0) {
      const isUp = (hash: BlockHash) => groups.some((_, group) => up.has(storeKey(hash, group)));
      this.counters.raised += hashes.slice(0, length).filter(isUp).length;
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
    this.#say(from, { kind: 'store_found', leaseId, blockIds, raised, raisedMs });
  }

  /** Reads what it lacks, as far as there is room. */
  async #take(from: string, offer: StoreOffer): Promise<void> {
    this.counters.offers++;
    this.#offersSeen.seen(from, offer.number);
    // It came twice: an answer now would take from the first what it reads.
    if (this.#reading.get(from)?.has(offer.offerId)) return;
    const remote = this.#engines.get(from);
    const taken = remote ? this.#roomFor(offer) : [];
    let came = false;
    if (remote && taken.length > 0) came = await this.#read(remote, offer.offerId, taken);
    for (const { key, slot, parent } of taken) {
      this.#catalog.completeStore(key, came);
      if (came) this.#lower?.stored(key, slot, parent);
      this.#arrivals.ended(key);
    }
    this.counters[came ? 'taken' : 'lost'] += taken.length;
    const read = came ? taken.map(({ group, place, slot }) => [group, place, slot + 1] as const) : [];
    this.#say(from, { kind: 'store_taken', offerId: offer.offerId, taken: read });
  }

  /** By group, as a READ wants them. What is there of its text is not to go for it. */
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

  /** A block without those before it is of no use to anyone: the first without room ends it. */
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
      return { allow: false, outcome: 'declined', message: `nothing is kept for '${leaseId}'.` };
    // From here on the READ keeps them, whoever asks again.
    this.#leases.delete(name);
    this.counters.loads++;
    return { allow: true, finished: () => this.#catalog.completeLoad(lease.keys) };
  };

  /** They keep what others may need room for, and only then is it of any account. */
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
    this.#offersSeen.gone(engineId);
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
  ready: async () => ({ outcome: 'declined', message: 'a store computes nothing.' }),
  finished() {},
};
