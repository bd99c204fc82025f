/** A minimal connector: engines share a map of KV by block hash. No holds, no peers. It can defer its answer (`ready`). */
import type {
  ConnectorOutput,
  ConnectorRequest,
  ExternalMatch,
  KvConnector,
  KvConnectorScheduler,
  KvConnectorWorker,
} from '../../src/engine/kv-connector.ts';
import type { BlockId, BlockIds } from '../../src/engine/types.ts';
import type { KvModel } from './fakes.ts';

/** Blocks to load from the store, by request. */
type Loads = ReadonlyMap<string, readonly { hash: string; to: BlockId }[]>;

/** Blocks by hash; each is block 1 of its own KvModel. */
export type ToyStore = Map<string, KvModel>;

export class ToyConnector
  implements KvConnector<Loads>, KvConnectorScheduler<Loads>, KvConnectorWorker<Loads>
{
  readonly scheduler = this;
  readonly worker = this;
  readonly #store: ToyStore;
  readonly #blockSize: number;
  #loads = new Map<string, { hash: string; to: BlockId }[]>();
  #loaded: string[] = [];
  #changed = false;
  #wake: () => void = () => {};
  /** False while it cannot say yet what the store has. */
  #ready = true;
  /** Number of calls of getNumNewMatchedTokens. */
  asked = 0;
  /** The engine's KV, and a function that copies one of its blocks into a new KvModel. */
  kv: { own: KvModel; copyOf(block: BlockId): KvModel } | null = null;

  constructor(store: ToyStore, blockSize: number) {
    this.#store = store;
    this.#blockSize = blockSize;
  }

  set ready(ready: boolean) {
    this.#ready = ready;
    this.#changed = true;
    this.#wake();
  }

  onNewRequest(): void {}

  getNumNewMatchedTokens(request: ConnectorRequest, numComputedTokens: number): ExternalMatch | null {
    this.asked++;
    if (!this.#ready) return null;
    const hashes = request.blockHashes(Math.floor((request.promptTokenIds.length - 1) / this.#blockSize));
    const missing = hashes.findIndex((hash) => !this.#store.has(hash));
    const found = (missing < 0 ? hashes.length : missing) * this.#blockSize;
    return { tokens: Math.max(0, found - numComputedTokens), noPull: null };
  }

  updateStateAfterAlloc(
    request: ConnectorRequest,
    blockIds: BlockIds,
    local: number,
    external: number,
  ): void {
    const [from, to] = [local / this.#blockSize, (local + external) / this.#blockSize];
    const hashes = request.blockHashes(to).slice(from);
    if (external > 0)
      this.#loads.set(
        request.requestId,
        hashes.map((hash, i) => ({ hash, to: blockIds[0]![from + i]! })),
      );
  }

  buildConnectorMeta(): Loads {
    const loads = this.#loads;
    this.#loads = new Map();
    return loads;
  }

  metaDueMs(): number | null {
    return this.#loads.size > 0 ? 0 : null;
  }

  updateConnectorOutput(): void {}

  /** Stores the full blocks of the request. */
  requestFinished(request: ConnectorRequest, blockIds: BlockIds) {
    const full = Math.floor(request.numComputedTokens / this.#blockSize);
    for (const [i, hash] of request.blockHashes(full).entries())
      this.#store.set(hash, this.kv!.copyOf(blockIds[0]![i]!));
    return { delayFree: false, kvTransferParams: null };
  }

  startLoadKv(loads: Loads): void {
    for (const [requestId, blocks] of loads) {
      for (const { hash, to } of blocks) this.kv!.own.copyBlock(this.#store.get(hash)!, 1, to);
      this.#loaded.push(requestId);
    }
  }

  getFinished(): ConnectorOutput {
    const output = {
      finishedSending: [],
      finishedRecving: this.#loaded,
      failedRecving: [],
      changed: this.#changed,
    };
    this.#loaded = [];
    this.#changed = false;
    return output;
  }

  waitForChange(): Promise<void> {
    if (this.#changed || this.#loaded.length > 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }
}
