/**
 * The tier on a Redis or Valkey server, which other machines' stores may share: one value per block, under a key with format
 * and namespace. The server does its own eviction. Trouble never fails a request: a server that does not answer in time counts
 * as a miss and is left alone for a while, and the outage is reported.
 */
import type { Clock } from '../engine/types.ts';
import { ConfigError, messageOf, TransferError } from '../errors.ts';
import type { KeyValueServer } from '../platform/types.ts';
import { inTime } from '../transport/deadlines.ts';
import { type BlockFormat, decodeBlock, encodeBlock, HEAD_BYTES } from './block-file.ts';
import { Lru } from './eviction/lru.ts';
import type { StoreKey } from './keys.ts';
import type { Tier } from './lower-tiers.ts';
import { BLOCK_KEYS, keyOf } from './server-keys.ts';
import { bytesIn, scatter } from './slots.ts';
import type { ServerCounters } from './stats.ts';
import { warnOnce } from './warn-once.ts';
import { WriteQueue, type WriteQueueDeps } from './write-queue.ts';

/** A command that is not answered by then counts as a miss. An engine waits 2 s for the store. */
const ANSWER_MS = 1_000;
/** After a failure, the server is not used for this long. */
const REST_MS = 10_000;
/** Minimum time between reports of outages. */
const TELL_MS = 60_000;
/** Number of concurrent fetches. */
const READERS = 8;
/** How many blocks are remembered as being on the server. */
const MOST_KNOWN = 65_536;

export interface ServerTierOptions {
  server: KeyValueServer;
  namespace: string;
  /** Bytes of KV in a block of the largest KV cache group. */
  blockBytes: number;
  /** TTL of a value, ms; null: until the server evicts it. */
  ttlMs: number | null;
  clock: Clock;
  /** Called when this store learns that a block is, or is no longer, on the server. */
  onChange?: (kind: 'stored' | 'removed', key: StoreKey) => void;
  onTrouble: (message: string) => void;
  /** Default: the value format shared with other processes. */
  format?: BlockFormat;
}

export class ServerTier implements Tier {
  readonly counters: ServerCounters = {
    ...{ written: 0, writtenBytes: 0, read: 0, readBytes: 0, readMs: 0, writeMs: 0 },
    ...{ broken: 0, leftOut: 0, outages: 0, foreign: 0 },
  };
  readonly #options: ServerTierOptions;
  readonly #format: BlockFormat;
  readonly #known: Lru;
  readonly #queue: WriteQueue;
  readonly #warn: (kind: string, message: string) => void;
  #reading = 0;
  readonly #readers: (() => void)[] = [];
  #restUntilMs = 0;
  #outageWarnedMs = Number.NEGATIVE_INFINITY;
  /** An outage has been reported, and not yet its end. */
  #outage = false;

  /** For a server that has been checked; see open(). */
  constructor(options: ServerTierOptions) {
    const { clock, onChange, blockBytes, format = VALUES } = options;
    this.#options = options;
    this.#warn = warnOnce(options.onTrouble);
    this.#format = format;
    this.#known = new Lru({ capacity: MOST_KNOWN, onEvicted: (key) => onChange?.('removed', key) });
    const write: WriteQueueDeps['write'] = (key, { kv }) => this.#write(key, kv);
    this.#queue = new WriteQueue({ write, blockBytes, clock, counters: this.counters });
  }

  /** Throws ConfigError if the host does not exist or the server refuses. If it does not answer, it is tried again later. */
  static async open(options: ServerTierOptions): Promise<ServerTier> {
    const tier = new ServerTier(options);
    try {
      await tier.#call(() => options.server.has([`${BLOCK_KEYS}${options.namespace}`]));
    } catch (error) {
      if (error instanceof ConfigError) throw error;
    }
    return tier;
  }

  /** Whether the server is being left alone after a failure. */
  get isResting(): boolean {
    return this.#options.clock.now() < this.#restUntilMs;
  }

  /** Number of blocks known to be on the server. */
  get blocks(): number {
    return this.#known.size;
  }

  get isFull(): boolean {
    return this.#queue.isFull;
  }

  keys(): Iterable<StoreKey> {
    return this.#known.keys();
  }

  async find(keys: readonly StoreKey[]): Promise<ReadonlySet<StoreKey>> {
    const { namespace, server } = this.#options;
    const there = new Set(keys.filter((key) => this.#queue.has(key)));
    const requested = keys.flatMap((key) => {
      const name = there.has(key) ? null : this.#format.nameOf({ namespace, key });
      return name === null ? [] : [{ key, name }];
    });
    if (requested.length === 0 || this.isResting) return there;
    try {
      const found = await this.#call(() => server.has(requested.map(({ name }) => name)));
      for (const [i, { key }] of requested.entries()) {
        if (found[i]) this.#know(key);
        else this.#forget(key);
        if (found[i]) there.add(key);
      }
    } catch {
      // #call() has reported it.
    }
    return there;
  }

  async read(key: StoreKey, into: readonly Uint8Array[]): Promise<boolean> {
    if (this.#queue.copy(key, into)) return true;
    const { clock } = this.#options;
    const sentMs = clock.now();
    if (this.#reading < READERS) this.#reading++;
    else await new Promise<void>((resolve) => this.#readers.push(resolve));
    try {
      const late = clock.now() - sentMs > ANSWER_MS;
      return !late && (await this.#fetch(key, into));
    } catch {
      return false;
    } finally {
      const next = this.#readers.shift();
      if (next) next();
      else this.#reading--;
    }
  }

  write(key: StoreKey, kv: readonly Uint8Array[]): void {
    const { namespace } = this.#options;
    if (this.#queue.has(key) || this.#known.has(key)) return;
    if (this.#format.nameOf({ namespace, key }) === null) return;
    if (this.isResting) this.counters.leftOut++;
    else this.#queue.add(key, { kv, parent: null });
  }

  async flush(): Promise<void> {
    await this.#queue.flush();
  }

  close(): void {
    this.#options.server.drop();
  }

  async #fetch(key: StoreKey, into: readonly Uint8Array[]): Promise<boolean> {
    const { server, namespace, clock } = this.#options;
    const name = this.#format.nameOf({ namespace, key });
    if (name === null || this.isResting || !this.#known.has(key)) return false;
    const begunMs = clock.now();
    const bytes = bytesIn(into);
    const most = HEAD_BYTES + bytes;
    const value = await this.#call(() => server.get(name, most));
    if (!value) {
      this.#forget(key);
      return false;
    }
    const long = value instanceof Uint8Array && value.length > most;
    const foreign = long ? { wrong: `it is longer than a block's ${most} bytes` } : value;
    const kv = 'wrong' in foreign ? foreign : this.#format.decode(foreign, { namespace, key }, bytes);
    if ('wrong' in kv) {
      this.counters['wrong' in foreign ? 'foreign' : 'broken']++;
      this.#forget(key);
      this.#warn('broken', `${server.location}: ${name} is ignored and removed: ${kv.wrong}`);
      await this.#call(() => server.remove([name]));
      return false;
    }
    scatter(kv, into);
    this.#know(key);
    this.counters.read++;
    this.counters.readBytes += bytes;
    this.counters.readMs += clock.now() - begunMs;
    return true;
  }

  async #write(key: StoreKey, kv: readonly Uint8Array[]): Promise<true> {
    const { server, namespace, ttlMs } = this.#options;
    const name = { namespace, key };
    const refused = await this.#call(() =>
      server.set(this.#format.nameOf(name)!, this.#format.encode(name, kv), ttlMs),
    );
    if (refused !== null) {
      this.#warn(
        'write',
        `${server.location} does not take blocks (${refused}): existing blocks are still read, and none are added until writing works again`,
      );
      throw new TransferError(refused);
    }
    this.#know(key);
    return true;
  }

  /** Rejects if there is no answer in time; the server is then left alone for REST_MS. */
  async #call<T>(question: () => Promise<T>): Promise<T> {
    try {
      const answer = await inTime(question(), ANSWER_MS, this.#options.clock, () => {
        throw new TransferError(`no answer within ${ANSWER_MS / 1000} s`);
      });
      if (!this.isResting) this.#answers();
      return answer;
    } catch (error) {
      this.#fails(error);
      throw error;
    }
  }

  #answers(): void {
    if (!this.#outage) return;
    this.#outage = false;
    this.#options.onTrouble(`${this.#options.server.location} answers again`);
  }

  #fails(error: unknown): void {
    const { clock, server, onTrouble } = this.#options;
    const now = clock.now();
    // Of all commands that fail together, count one.
    if (now < this.#restUntilMs) return;
    this.#restUntilMs = now + REST_MS;
    this.counters.outages++;
    // Do not wait for, or keep memory for, outstanding answers.
    server.drop();
    if (now - this.#outageWarnedMs < TELL_MS) return;
    this.#outageWarnedMs = now;
    this.#outage = true;
    onTrouble(
      `${server.location} is unavailable (${messageOf(error)}): requests continue without it, and it is tried again every ${REST_MS / 1000} s`,
    );
  }

  #know(key: StoreKey): void {
    const known = this.#known.has(key);
    if (known) this.#known.touch(key);
    else this.#known.put(key);
    if (!known) this.#options.onChange?.('stored', key);
  }

  #forget(key: StoreKey): void {
    if (!this.#known.has(key)) return;
    this.#known.remove(key);
    this.#options.onChange?.('removed', key);
  }
}

const VALUES: BlockFormat = { nameOf: keyOf, encode: encodeBlock, decode: decodeBlock };
