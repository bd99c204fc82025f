/**
 * A store among engines: answers what it has, keeps it while it is read, and reads what it lacks of what it is offered. Knows
 * blocks by their hashes alone; the transport brings the bytes, the catalog says where they lie.
 */
import type { BlockHash } from '../engine/block-hash.ts';
import type { Clock } from '../engine/types.ts';
import type { StoreLookup, StoreMessage, StoreOffer } from '../transport/store-messages.ts';
import type {
  BlockStream,
  PeerNotification,
  ReadClaim,
  ReadGate,
  RemoteAddress,
  ServingTransport,
} from '../transport/types.ts';
import type { BlockCatalog } from './catalog.ts';

export interface StoreServiceDeps {
  transport: ServingTransport;
  catalog: BlockCatalog;
  clock: Pick<Clock, 'now'>;
  /** null or absent: there is memory only. */
  lower?: LowerTier | null;
}

/** What lies below memory. No call rejects. */
export interface LowerTier {
  /** What of the hashes is there, and worth its while where a block's worth in milliseconds is known. */
  look(hashes: readonly BlockHash[], worthMs: number | null): Promise<Raising>;
  /** A block came from an engine. */
  stored(hash: BlockHash, slot: number): void;
}

/** Blocks that can be brought up, all of them begun at once. */
export interface Raising {
  has(hash: BlockHash): boolean;
  /** Into the block's slot; false: it did not come. Never rejects. */
  load(hash: BlockHash, slot: number): Promise<boolean>;
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
}

interface Lease {
  readerId: string;
  hashes: readonly BlockHash[];
  blockIds: ReadonlySet<number>;
}

/** Blocks are named by hashes, which their reader knows: nothing else is to be shown. */
const NO_CLAIM: ReadClaim = { held: { numTokens: 0, digest: '' }, prompt: { numTokens: 0, digest: '' } };

/** Ids that engines choose are theirs alone. */
const nameOf = (engineId: string, id: string): string => `${engineId} ${id}`;

export class StoreService {
  readonly counters: StoreServiceCounters = { offers: 0, taken: 0, known: 0, lost: 0, loads: 0 };
  readonly #transport: ServingTransport;
  readonly #catalog: BlockCatalog;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #lower: LowerTier | null;
  readonly #engines = new Map<string, RemoteAddress>();
  readonly #leases = new Map<string, Lease>();
  /** By hash: who waits for a block that is being read. */
  readonly #waiting = new Map<BlockHash, (() => void)[]>();
  /** READs of offers under way, by their engine. */
  readonly #reading = new Map<string, Set<AbortController>>();

  constructor({ transport, catalog, clock, lower = null }: StoreServiceDeps) {
    this.#transport = transport;
    this.#clock = clock;
    this.#catalog = catalog;
    this.#lower = lower;
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

  async #lookup(from: string, { leaseId, hashes, wait, worthMs }: StoreLookup): Promise<void> {
    const begunMs = this.#clock.now();
    const { kept, raised } = this.#lower
      ? await this.#raise(hashes, this.#lower, worthMs ?? null)
      : { kept: [], raised: 0 };
    const raisedMs = raised > 0 ? this.#clock.now() - begunMs : 0;
    if (wait) for (const hash of hashes) if (!(await this.#came(hash))) break;
    const found = hashes.slice(0, this.#catalog.lookup(hashes));
    const name = nameOf(from, leaseId);
    this.#endLease(name);
    const blockIds = this.#catalog.prepareLoad(found).map((slot) => slot + 1);
    this.#catalog.completeLoad(kept);
    if (found.length > 0 && this.#engines.has(from))
      this.#leases.set(name, { readerId: from, hashes: found, blockIds: new Set(blockIds) });
    else this.#catalog.completeLoad(found);
    this.#say(from, { kind: 'store_found', leaseId, blockIds, raised, raisedMs });
  }

  /**
   * Brings into memory what is below it, up to the first that is nowhere. `kept`: these stay there, to be let go of when all
   * has come; `raised`: how many were sought below.
   */
  async #raise(
    hashes: readonly BlockHash[],
    lower: LowerTier,
    worthMs: number | null,
  ): Promise<{ kept: BlockHash[]; raised: number }> {
    const kept: BlockHash[] = [];
    let raised = 0;
    const raising: Promise<void>[] = [];
    const absent = hashes.filter((hash) => this.#catalog.state(hash) === 'absent');
    const below = await lower.look(absent, worthMs);
    for (const hash of hashes) {
      const state = this.#catalog.state(hash);
      if (state === 'ready') {
        this.#catalog.prepareLoad([hash]);
        kept.push(hash);
      } else if (state === 'coming') raising.push(this.#came(hash).then(() => {}));
      else {
        const slot = below.has(hash) ? this.#catalog.prepareStore(hash) : null;
        if (slot === null) break;
        raised++;
        raising.push(this.#load(hash, slot, below, kept));
      }
    }
    await Promise.all(raising);
    return { kept, raised };
  }

  async #load(hash: BlockHash, slot: number, below: Raising, kept: BlockHash[]): Promise<void> {
    const came = await below.load(hash, slot);
    this.#catalog.completeStore(hash, came);
    if (came) this.#catalog.prepareLoad([hash]);
    if (came) kept.push(hash);
    this.#cameOrNot(hash);
  }

  #cameOrNot(hash: BlockHash): void {
    for (const resolve of this.#waiting.get(hash) ?? []) resolve();
    this.#waiting.delete(hash);
  }

  /** Whether the block is there, once it is no longer on its way. */
  async #came(hash: BlockHash): Promise<boolean> {
    while (this.#catalog.state(hash) === 'coming') {
      await new Promise<void>((resolve) => {
        const waiting = this.#waiting.get(hash) ?? [];
        this.#waiting.set(hash, [...waiting, resolve]);
      });
    }
    return this.#catalog.state(hash) === 'ready';
  }

  /** Reads what it lacks, as far as there is room. */
  async #take(from: string, { offerId, hashes }: StoreOffer): Promise<void> {
    this.counters.offers++;
    const remote = this.#engines.get(from);
    const taken: { hash: BlockHash; place: number; slot: number }[] = [];
    for (const [place, hash] of hashes.entries()) {
      if (this.#catalog.state(hash) !== 'absent') {
        this.counters.known++;
        continue;
      }
      const slot = remote ? this.#catalog.prepareStore(hash) : null;
      // A block without those before it is of no use to anyone.
      if (slot === null) break;
      taken.push({ hash, place, slot });
    }
    let came = false;
    if (remote && taken.length > 0) came = await this.#read(remote, offerId, taken);
    for (const { hash, slot } of taken) {
      this.#catalog.completeStore(hash, came);
      if (came) this.#lower?.stored(hash, slot);
      this.#cameOrNot(hash);
    }
    this.counters[came ? 'taken' : 'lost'] += taken.length;
    const read = came ? taken.map(({ place, slot }) => [place, slot + 1] as const) : [];
    this.#say(from, { kind: 'store_taken', offerId, taken: read });
  }

  async #read(
    remote: RemoteAddress,
    offerId: string,
    blocks: readonly { place: number; slot: number }[],
  ): Promise<boolean> {
    const reading = new AbortController();
    const { engineId } = remote;
    const ofEngine = this.#reading.get(engineId) ?? new Set();
    this.#reading.set(engineId, ofEngine.add(reading));
    const groups = this.#transport.identity.blockBytes.map((_, group) => group);
    const pairs = groups.flatMap((group) =>
      blocks.map(({ place, slot }) => ({ group, remote: place, local: slot + 1 })),
    );
    const { outcome } = await this.#transport.read({
      ...{ remote, remoteRequestId: offerId, claim: NO_CLAIM, pairs, requestId: offerId },
      ...{ streamed: true, signal: reading.signal },
    });
    ofEngine.delete(reading);
    return outcome === 'done';
  }

  readonly #gate: ReadGate = (leaseId, blocks, _claim, readerId) => {
    const name = nameOf(readerId, leaseId);
    const lease = this.#leases.get(name);
    if (!lease || blocks.some(({ blockId }) => !lease.blockIds.has(blockId)))
      return { allow: false, outcome: 'declined', message: `nothing is kept for '${leaseId}'.` };
    // From here on the READ keeps them, whoever asks again.
    this.#leases.delete(name);
    this.counters.loads++;
    return { allow: true, finished: () => this.#catalog.completeLoad(lease.hashes) };
  };

  #endLease(name: string): void {
    const lease = this.#leases.get(name);
    if (!lease) return;
    this.#leases.delete(name);
    this.#catalog.completeLoad(lease.hashes);
  }

  #gone(engineId: string): void {
    this.#engines.delete(engineId);
    for (const [name, { readerId }] of this.#leases) if (readerId === engineId) this.#endLease(name);
    for (const reading of this.#reading.get(engineId) ?? []) reading.abort();
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
