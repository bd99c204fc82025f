/**
 * The tier on a server that other machines' stores use too: a value a block, its key with format and namespace. How much it
 * keeps is the server's own affair. Nothing here is worth a request: a server that does not answer in time has nothing, is let
 * be for a while, and one line says so.
 */
import type { BlockHash } from '../engine/block-hash.ts';
import type { Clock } from '../engine/types.ts';
import { ConfigError, messageOf, TransferError } from '../errors.ts';
import type { KeyValueServer } from '../platform/types.ts';
import { inTime } from '../transport/deadlines.ts';
import { type BlockFormat, decodeBlock, encodeBlock, HEAD_BYTES } from './block-file.ts';
import { Lru } from './eviction/lru.ts';
import type { Tier } from './lower-tiers.ts';
import { BLOCK_KEYS, keyOf } from './server-keys.ts';
import { bytesIn } from './slots.ts';
import type { ServerCounters } from './stats.ts';
import { WriteQueue, type WriteQueueDeps } from './write-queue.ts';

/** A question that was not answered by then is a miss: an engine waits 2 s for the store. */
const ANSWER_MS = 1_000;
/** After that nothing is asked for so long. */
const REST_MS = 10_000;
/** Of a server that comes and goes one line tells so often at most. */
const TELL_MS = 60_000;
/** Blocks that are fetched at once. */
const READERS = 8;
/** Blocks of which is remembered that the server has them. */
const MOST_KNOWN = 65_536;

export interface ServerTierOptions {
  server: KeyValueServer;
  namespace: string;
  /** Of KV, a block. */
  blockBytes: number;
  /** From its writing on; null: for good, as far as the server is concerned. */
  ttlMs: number | null;
  clock: Clock;
  /** A block was found or put there, or is there no more, as far as this store knows. */
  onChange?: (kind: 'stored' | 'removed', hash: BlockHash) => void;
  onTrouble: (message: string) => void;
  /** Absent: values that other processes read too. */
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
  readonly #told = new Set<string>();
  #reading = 0;
  readonly #readers: (() => void)[] = [];
  #restUntilMs = 0;
  #outageToldMs = Number.NEGATIVE_INFINITY;
  /** An outage that was told, and not yet its end. */
  #outage = false;

  /** Of a server that is known to serve. */
  constructor(options: ServerTierOptions) {
    const { clock, onChange, blockBytes, format = VALUES } = options;
    this.#options = options;
    this.#format = format;
    this.#known = new Lru({ capacity: MOST_KNOWN, onEvicted: (hash) => onChange?.('removed', hash) });
    const write: WriteQueueDeps['write'] = (hash, { kv }) => this.#write(hash, kv);
    this.#queue = new WriteQueue({ write, blockBytes, clock, counters: this.counters });
  }

  /** Throws ConfigError for a host that is not, and for a server that refuses; one that does not answer is waited for. */
  static async open(options: ServerTierOptions): Promise<ServerTier> {
    const tier = new ServerTier(options);
    try {
      await tier.#ask(() => options.server.has([`${BLOCK_KEYS}${options.namespace}`]));
    } catch (error) {
      if (error instanceof ConfigError) throw error;
    }
    return tier;
  }

  /** It is not asked now. */
  get isResting(): boolean {
    return this.#options.clock.now() < this.#restUntilMs;
  }

  /** Blocks of which it is known that they are there. */
  get blocks(): number {
    return this.#known.size;
  }

  get isFull(): boolean {
    return this.#queue.isFull;
  }

  hashes(): Iterable<BlockHash> {
    return this.#known.keys();
  }

  async find(hashes: readonly BlockHash[]): Promise<ReadonlySet<BlockHash>> {
    const { namespace, server } = this.#options;
    const there = new Set(hashes.filter((hash) => this.#queue.has(hash)));
    const asked = hashes.flatMap((hash) => {
      const key = there.has(hash) ? null : this.#format.nameOf({ namespace, hash });
      return key === null ? [] : [{ hash, key }];
    });
    if (asked.length === 0 || this.isResting) return there;
    try {
      const found = await this.#ask(() => server.has(asked.map(({ key }) => key)));
      for (const [i, { hash }] of asked.entries()) {
        if (found[i]) this.#know(hash);
        else this.#forget(hash);
        if (found[i]) there.add(hash);
      }
    } catch {
      // Told where it was noticed.
    }
    return there;
  }

  async read(hash: BlockHash, into: readonly Uint8Array[]): Promise<boolean> {
    if (this.#queue.copy(hash, into)) return true;
    const { clock } = this.#options;
    const askedMs = clock.now();
    if (this.#reading < READERS) this.#reading++;
    else await new Promise<void>((resolve) => this.#readers.push(resolve));
    try {
      const late = clock.now() - askedMs > ANSWER_MS;
      return !late && (await this.#fetch(hash, into));
    } catch {
      return false;
    } finally {
      const next = this.#readers.shift();
      if (next) next();
      else this.#reading--;
    }
  }

  write(hash: BlockHash, kv: readonly Uint8Array[]): void {
    const { namespace } = this.#options;
    if (this.#queue.has(hash) || this.#known.has(hash)) return;
    if (this.#format.nameOf({ namespace, hash }) === null) return;
    if (this.isResting) this.counters.leftOut++;
    else this.#queue.add(hash, { kv, parent: null });
  }

  async flush(): Promise<void> {
    await this.#queue.flush();
  }

  close(): void {
    this.#options.server.drop();
  }

  async #fetch(hash: BlockHash, into: readonly Uint8Array[]): Promise<boolean> {
    const { server, namespace, clock } = this.#options;
    const key = this.#format.nameOf({ namespace, hash });
    if (key === null || this.isResting || !this.#known.has(hash)) return false;
    const begunMs = clock.now();
    const bytes = bytesIn(into);
    const most = HEAD_BYTES + bytes;
    const value = await this.#ask(() => server.get(key, most));
    if (!value) {
      this.#forget(hash);
      return false;
    }
    const long = value instanceof Uint8Array && value.length > most;
    const foreign = long ? { wrong: `it is longer than a block's ${most} bytes` } : value;
    const kv = 'wrong' in foreign ? foreign : this.#format.decode(foreign, { namespace, hash }, bytes);
    if ('wrong' in kv) {
      this.counters['wrong' in foreign ? 'foreign' : 'broken']++;
      this.#forget(hash);
      this.#tell('broken', `${server.location}: ${key} is not used and removed: ${kv.wrong}`);
      await this.#ask(() => server.remove([key]));
      return false;
    }
    let at = 0;
    for (const part of into) {
      part.set(kv.subarray(at, at + part.length));
      at += part.length;
    }
    this.#know(hash);
    this.counters.read++;
    this.counters.readBytes += bytes;
    this.counters.readMs += clock.now() - begunMs;
    return true;
  }

  async #write(hash: BlockHash, kv: readonly Uint8Array[]): Promise<true> {
    const { server, namespace, ttlMs } = this.#options;
    const name = { namespace, hash };
    const refused = await this.#ask(() =>
      server.set(this.#format.nameOf(name)!, this.#format.encode(name, kv), ttlMs),
    );
    if (refused !== null) {
      this.#tell(
        'write',
        `${server.location} does not take blocks (${refused}): what is there is still read, and nothing is added until that works again`,
      );
      throw new TransferError(refused);
    }
    this.#know(hash);
    return true;
  }

  /** Rejects when there is no answer in time; then the server is let be for a while. */
  async #ask<T>(question: () => Promise<T>): Promise<T> {
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
    // Of all that was under way one counts.
    if (now < this.#restUntilMs) return;
    this.#restUntilMs = now + REST_MS;
    this.counters.outages++;
    // What it still owes is not waited for, and takes no memory.
    server.drop();
    if (now - this.#outageToldMs < TELL_MS) return;
    this.#outageToldMs = now;
    this.#outage = true;
    onTrouble(
      `${server.location} does not serve (${messageOf(error)}): all goes on without it, and it is tried again every ${REST_MS / 1000} s`,
    );
  }

  #know(hash: BlockHash): void {
    const known = this.#known.has(hash);
    if (known) this.#known.touch(hash);
    else this.#known.put(hash);
    if (!known) this.#options.onChange?.('stored', hash);
  }

  #forget(hash: BlockHash): void {
    if (!this.#known.has(hash)) return;
    this.#known.remove(hash);
    this.#options.onChange?.('removed', hash);
  }

  #tell(kind: string, message: string): void {
    if (this.#told.has(kind)) return;
    this.#told.add(kind);
    this.#options.onTrouble(message);
  }
}

const VALUES: BlockFormat = { nameOf: keyOf, encode: encodeBlock, decode: decodeBlock };
