/**
 * One engine's KV events in vLLM's format (vllm/distributed/kv_events.py), numbered, and kept for replay up to a bound.
 * A reader holds only a position in the log, so a slow reader uses no memory; it may miss batches instead.
 */
import { written } from '../../config/token-ids.ts';
import type { CacheEvent, Medium } from '../../engine/cache-event.ts';
import { safeJson } from '../http/json.ts';

export type KvEvent =
  | {
      type: 'BlockStored';
      block_hashes: readonly string[];
      parent_block_hash: string | null;
      token_ids: readonly number[];
      block_size: number;
      lora_id: null;
      medium: Medium;
      lora_name: null;
      group_idx: number;
    }
  | { type: 'BlockRemoved'; block_hashes: readonly string[]; medium: Medium; group_idx: number }
  | { type: 'AllBlocksCleared' };

export interface KvEventBatch {
  /** Unix seconds. */
  ts: number;
  events: readonly KvEvent[];
  data_parallel_rank: number;
}

function kvEvent(event: CacheEvent): KvEvent {
  switch (event.kind) {
    case 'stored':
      return {
        type: 'BlockStored',
        block_hashes: event.blockHashes,
        parent_block_hash: event.parentBlockHash,
        token_ids: written(event.tokenIds),
        block_size: event.blockSize,
        lora_id: null,
        medium: event.medium ?? 'GPU',
        lora_name: null,
        group_idx: event.group,
      };
    case 'removed':
      return {
        type: 'BlockRemoved',
        block_hashes: event.blockHashes,
        medium: event.medium ?? 'GPU',
        group_idx: event.group,
      };
    case 'cleared':
      return { type: 'AllBlocksCleared' };
  }
}

/** vLLM's buffer_steps. */
const KEPT_BATCHES = 10_000;
/** kvferry's own bound: batches of long prefills are large, and 10,000 of them would take too much memory. */
const KEPT_CHARACTERS = 32 * 2 ** 20;

export class KvEventLog {
  /** Differs from that of every earlier log: a reader may come back after the server or the engine was started again. */
  readonly run = crypto.randomUUID().slice(0, 8);
  readonly #mostBatches: number;
  readonly #mostCharacters: number;
  /** JSON of the batches from #first on. */
  #kept: string[] = [];
  #first = 0;
  #characters = 0;
  readonly #waiting = new Set<() => void>();
  #closed = false;

  constructor(mostBatches = KEPT_BATCHES, mostCharacters = KEPT_CHARACTERS) {
    this.#mostBatches = mostBatches;
    this.#mostCharacters = mostCharacters;
  }

  /** Number of the oldest batch kept. */
  get first(): number {
    return this.#first;
  }

  /** Number of the next batch. */
  get next(): number {
    return this.#first + this.#kept.length;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** `atMs`: Unix time in milliseconds, on the shared clock. */
  append(events: readonly CacheEvent[], atMs: number): void {
    const batch: KvEventBatch = { ts: atMs / 1000, events: events.map(kvEvent), data_parallel_rank: 0 };
    const text = safeJson(batch);
    this.#kept.push(text);
    this.#characters += text.length;
    let surplus = 0;
    while (this.#kept.length - surplus > this.#mostBatches || this.#characters > this.#mostCharacters) {
      this.#characters -= this.#kept[surplus++]!.length;
    }
    if (surplus > 0) this.#kept.splice(0, surplus);
    this.#first += surplus;
    this.#wake();
  }

  /** The batch's JSON; null if it is no longer kept or does not exist yet. */
  read(sequence: number): string | null {
    return this.#kept[sequence - this.#first] ?? null;
  }

  /** Ends the log and wakes waiting readers. */
  close(): void {
    this.#closed = true;
    this.#wake();
  }

  /** Resolves at the next batch, at close(), or when the signal aborts. */
  changed(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.#waiting.delete(done);
        signal.removeEventListener('abort', done);
        resolve();
      };
      if (signal.aborted || this.#closed) return done();
      this.#waiting.add(done);
      signal.addEventListener('abort', done);
    });
  }

  #wake(): void {
    for (const done of [...this.#waiting]) done();
  }
}
