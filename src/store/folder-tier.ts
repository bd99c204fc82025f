/**
 * The folder tier below a store's memory: one file per block, in a folder that outlives the process and may be shared with
 * other processes. Trouble never fails a request: a block that cannot be read is a miss, and one that cannot be written is
 * skipped. Each kind of trouble is reported once.
 */
import type { Clock } from '../engine/types.ts';
import { ConfigError, messageOf } from '../errors.ts';
import type { StoreFolder } from '../platform/types.ts';
import { sumOf } from '../sum.ts';
import { type BlockFormat, type BlockName, decodeBlock, encodeBlock, fileBytesOf } from './block-file.ts';
import { blockIn, fileOf, openStoreFolder, remakeStoreFolder } from './folder-names.ts';
import { inOrderOfEviction } from './folder-order.ts';
import { FolderRoom } from './folder-room.ts';
import type { StoreKey } from './keys.ts';
import type { Tier } from './lower-tiers.ts';
import { bytesIn, scatter } from './slots.ts';
import type { FolderCounters } from './stats.ts';
import { warnOnce } from './warn-once.ts';
import { WriteQueue, type WriteQueueDeps, type Written } from './write-queue.ts';

export interface FolderTierOptions {
  folder: StoreFolder;
  namespace: string;
  /** Bytes of KV in a block of the largest KV cache group. */
  blockBytes: number;
  /** Limit for the whole folder, bytes. */
  quotaBytes: number;
  /** How long a block is used after it was written, ms; null: without limit. */
  ttlMs: number | null;
  clock: Clock;
  /** Called when a block's file was written or is gone. Not called for files present at the start. */
  onChange?: (kind: 'stored' | 'removed', key: StoreKey) => void;
  /** Called once for each kind of trouble. */
  onTrouble: (message: string) => void;
  /** Default: the file format shared with other processes. */
  format?: BlockFormat;
}

const FILES: BlockFormat = { nameOf: fileOf, encode: encodeBlock, decode: decodeBlock };

export class FolderTier implements Tier {
  readonly counters: FolderCounters = {
    ...{ written: 0, writtenBytes: 0, read: 0, readBytes: 0, readMs: 0, writeMs: 0 },
    ...{ broken: 0, expired: 0, leftOut: 0 },
  };
  readonly #options: FolderTierOptions;
  /** Existing files: when each was written, ms on this machine's clock, and its size. */
  readonly #written = new Map<StoreKey, { atMs: number; bytes: number }>();
  #bytes = 0;
  readonly #room: FolderRoom;
  readonly #queue: WriteQueue;
  /** Files being removed. Writing one of them again waits for that. */
  readonly #removing = new Map<StoreKey, Promise<void>>();
  readonly #warn: (kind: string, message: string) => void;
  readonly #format: BlockFormat;

  /** For an opened folder. `othersBytes`: size of other namespaces' blocks. Throws ConfigError for a quota below one block. */
  constructor(options: FolderTierOptions, othersBytes = 0) {
    const { quotaBytes, blockBytes, format = FILES } = options;
    this.#room = new FolderRoom({
      bytes: Math.max(fileBytesIn(options), quotaBytes - othersBytes),
      onEvicted: (key) => this.#remove(key),
    });
    this.#options = options;
    this.#warn = warnOnce(options.onTrouble);
    this.#format = format;
    const write: WriteQueueDeps['write'] = (key, written) => this.#write(key, written);
    this.#queue = new WriteQueue({ write, blockBytes, clock: options.clock, counters: this.counters });
  }

  /** Throws ConfigError if the folder is not a store's or has another format, or if the quota is below one block. */
  static async open(options: FolderTierOptions): Promise<FolderTier> {
    const { folder, namespace, quotaBytes } = options;
    // First: if the quota is refused, nothing must have been created or removed.
    const fileBytes = fileBytesIn(options);
    const files = inOrderOfEviction(await openStoreFolder(folder, true));
    const others = files.filter((file) => blockIn(file) && blockIn(file)!.namespace !== namespace);
    // Remove blocks of other models until they leave half of the quota plus one block.
    let othersBytes = sumOf(others, ({ bytes }) => bytes);
    for (const { name, bytes } of others) {
      if (othersBytes <= Math.max(0, quotaBytes / 2 - fileBytes)) break;
      await folder.remove(name).catch(() => {});
      othersBytes -= bytes;
    }
    const tier = new FolderTier(options, othersBytes);
    for (const file of files) {
      const block = blockIn(file);
      if (block?.namespace !== namespace) continue;
      tier.#wrote(block.key, file.modifiedMs, file.bytes);
      tier.#room.enter(block.key, file.bytes);
      tier.has(block.key);
    }
    return tier;
  }

  keys(): Iterable<StoreKey> {
    return this.#written.keys();
  }

  get blocks(): number {
    return this.#written.size;
  }

  /** Total size of this namespace's files. */
  get bytes(): number {
    return this.#bytes;
  }

  get isFull(): boolean {
    return this.#queue.isFull;
  }

  /** Whether the block is there or queued for writing. Removes it if its TTL has expired. */
  has(key: StoreKey): boolean {
    if (this.#queue.has(key)) return true;
    const written = this.#written.get(key);
    if (!written) return false;
    const { ttlMs, clock } = this.#options;
    if (ttlMs === null || clock.now() < written.atMs + ttlMs) return true;
    this.counters.expired++;
    this.#forget(key);
    return false;
  }

  used(keys: readonly StoreKey[]): void {
    this.#room.used(keys);
  }

  async find(keys: readonly StoreKey[]): Promise<ReadonlySet<StoreKey>> {
    return new Set(keys.filter((key) => this.has(key)));
  }

  async read(key: StoreKey, into: readonly Uint8Array[]): Promise<boolean> {
    if (this.#queue.copy(key, into)) return true;
    const { folder, namespace, clock } = this.#options;
    const begunMs = clock.now();
    const name = this.#format.nameOf({ namespace, key });
    if (name === null || !this.has(key)) return false;
    const numBytes = bytesIn(into);
    const take = (file: Uint8Array | null) => this.#take({ namespace, key }, file, into, numBytes);
    try {
      const came = folder.readFor
        ? await folder.readFor(name, fileBytesOf(numBytes), take)
        : take(await folder.read(name));
      if (!came) return false;
      this.counters.read++;
      this.counters.readBytes += numBytes;
      this.counters.readMs += clock.now() - begunMs;
      return true;
    } catch (error) {
      this.#warn(
        'read',
        `${folder.location} cannot be read (${messageOf(error)}): its blocks are computed instead`,
      );
      this.counters.broken++;
      // Its file stays, since the trouble may be the disk's, and takes its room until the block is written again.
      this.#forgotten(key);
      return false;
    }
  }

  /** Checks the file and copies its KV to `into`. */
  #take(name: BlockName, file: Uint8Array | null, into: readonly Uint8Array[], numBytes: number): boolean {
    const { folder } = this.#options;
    const { key } = name;
    if (!file) {
      // Another process removed it.
      this.#room.leave(key);
      this.#forgotten(key);
      return false;
    }
    const kv = this.#format.decode(file, name, numBytes);
    if ('wrong' in kv) {
      this.counters.broken++;
      this.#warn(
        'broken',
        `${folder.location}/${this.#format.nameOf(name)} is ignored and removed: ${kv.wrong}`,
      );
      this.#forget(key);
      return false;
    }
    scatter(kv, into);
    return true;
  }

  write(key: StoreKey, kv: readonly Uint8Array[], parent: StoreKey | null = null): void {
    if (this.has(key) || this.#format.nameOf({ namespace: this.#options.namespace, key }) === null) return;
    this.#queue.add(key, { kv, parent });
  }

  async flush(): Promise<void> {
    await this.#queue.flush();
    await Promise.all(this.#removing.values());
  }

  async #write(key: StoreKey, { kv, parent }: Written): Promise<boolean> {
    const { folder, namespace, clock } = this.#options;
    const name = { namespace, key };
    const file = this.#format.encode(name, kv);
    // Make room first, so that the folder never exceeds its quota.
    if (!this.#room.enter(key, this.#format.fileBytes?.(name) ?? file.length, parent)) return false;
    await this.#removing.get(key);
    try {
      await folder.write(this.#format.nameOf(name)!, file, () => remakeStoreFolder(folder));
    } catch (error) {
      this.#room.leave(key);
      this.#warn(
        'write',
        `${folder.location} cannot be written to (${messageOf(error)}): existing blocks are still read, and none are added until writing works again`,
      );
      throw error;
    }
    if (this.#room.has(key)) {
      this.#wrote(key, clock.now(), file.length);
      this.#options.onChange?.('stored', key);
    } else this.#remove(key);
    return true;
  }

  #forget(key: StoreKey): void {
    this.#room.leave(key);
    this.#remove(key);
  }

  #wrote(key: StoreKey, atMs: number, bytes: number): void {
    this.#written.set(key, { atMs, bytes });
    this.#bytes += bytes;
  }

  /** The block's file is gone. */
  #forgotten(key: StoreKey): void {
    const written = this.#written.get(key);
    if (!written) return;
    this.#written.delete(key);
    this.#bytes -= written.bytes;
    this.#options.onChange?.('removed', key);
  }

  #remove(key: StoreKey): void {
    this.#forgotten(key);
    const name = this.#format.nameOf({ namespace: this.#options.namespace, key });
    if (name === null) return;
    const removed = this.#options.folder
      .remove(name)
      .catch(() => {})
      .finally(() => {
        if (this.#removing.get(key) === removed) this.#removing.delete(key);
      });
    this.#removing.set(key, removed);
  }
}

/** Size of a block's file. Throws ConfigError if the quota is smaller. */
function fileBytesIn({ quotaBytes, blockBytes }: FolderTierOptions): number {
  const fileBytes = fileBytesOf(blockBytes);
  if (quotaBytes >= fileBytes) return fileBytes;
  throw new ConfigError(
    `the store's folder is limited to ${quotaBytes} bytes, but a block takes ${fileBytes}: allow that or more`,
  );
}
