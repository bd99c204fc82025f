/** A folder below a store's memory: which blocks go down when, and how they come up again. */
import type { Ingestion } from '../config/store.ts';
import type { BlockHash } from '../engine/block-hash.ts';
import type { ArenaMemory } from './arena.ts';
import type { BlockCatalog, CatalogDeps } from './catalog.ts';
import { FolderTier, type FolderTierOptions } from './folder-tier.ts';
import type { LowerTier } from './service.ts';

export interface StoreFolderStart {
  directory: string;
  /** Of the whole folder. */
  bytes: number;
  /** From a block's writing on; null: for good. */
  ttlMs: number | null;
  ingestion: Ingestion;
  /** Of all that must be equal for a block's bytes to mean the same: 64 hex digits. */
  namespace: string;
}

export class FolderBelow implements LowerTier {
  /** What the catalog is to tell. */
  readonly listeners: Pick<CatalogDeps, 'onEvicted' | 'onHot'>;
  readonly #tier: FolderTier;
  readonly #memory: ArenaMemory;
  readonly #ingestion: StoreFolderStart['ingestion'];

  private constructor(tier: FolderTier, memory: ArenaMemory, ingestion: StoreFolderStart['ingestion']) {
    this.#tier = tier;
    this.#memory = memory;
    this.#ingestion = ingestion;
    const down = (hash: BlockHash, slot: number) => this.#tier.write(hash, this.#bytes(slot));
    this.listeners = {
      ...(ingestion === 'EVICTED' ? { onEvicted: down } : {}),
      ...(ingestion === 'HOT' ? { onHot: down } : {}),
    };
  }

  /** Throws ConfigError. */
  static async open(
    { bytes: quotaBytes, ttlMs, ingestion, namespace }: StoreFolderStart,
    memory: ArenaMemory,
    rest: Pick<FolderTierOptions, 'folder' | 'clock' | 'onTrouble' | 'onChange'>,
  ): Promise<FolderBelow> {
    const blockBytes = memory.blockBytes.reduce((sum, bytes) => sum + bytes, 0);
    const tier = await FolderTier.open({ ...rest, namespace, blockBytes, quotaBytes, ttlMs });
    return new FolderBelow(tier, memory, ingestion);
  }

  get stats() {
    return { blocks: this.#tier.blocks, bytes: this.#tier.bytes, counters: { ...this.#tier.counters } };
  }

  hashes(): Iterable<BlockHash> {
    return this.#tier.hashes();
  }

  has(hash: BlockHash): boolean {
    return this.#tier.has(hash);
  }

  load(hash: BlockHash, slot: number): Promise<boolean> {
    return this.#tier.read(hash, this.#bytes(slot));
  }

  stored(hash: BlockHash, slot: number): void {
    if (this.#ingestion === 'ALL') this.#tier.write(hash, this.#bytes(slot));
  }

  /** Resolves when all is written that is to outlive the process. */
  async end(catalog: BlockCatalog): Promise<void> {
    for (const [hash, slot] of this.#ingestion === 'EVICTED' ? catalog.ready() : []) {
      this.#tier.write(hash, this.#bytes(slot));
      // So many at once as wait at most.
      if (this.#tier.isFull) await this.#tier.flush();
    }
    await this.#tier.flush();
  }

  #bytes(slot: number): Uint8Array[] {
    return this.#memory.blockBytes.map((_, group) => this.#memory.block(group, slot + 1));
  }
}
