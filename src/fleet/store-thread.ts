/**
 * A KV store in a thread of its own: started in addition to the engines and connected to each. If it ends or is
 * stuck, serving continues without it.
 */
import { STORE_ADDRESS } from '../config/connectors.ts';
import type { Clock } from '../engine/types.ts';
import { EngineDeadError } from '../errors.ts';
import { proxy, transfer, wrap } from '../host/rpc.ts';
import { fingerprint } from '../model/weights/fingerprint.ts';
import type { Checkpoint } from '../model/weights/hf-weights.ts';
import type { EngineThread, FileSource, Platform } from '../platform/types.ts';
import { namespaceOf } from '../store/block-file.ts';
import type { StoreBlocks } from '../store/block-news.ts';
import type { StoreApi, StoreStart } from '../store/host.ts';
import type { StoreStats } from '../store/stats.ts';
import { sumOf } from '../sum.ts';
import { type EngineWire, plainWire } from '../transport/channel.ts';
import { silence, unlessSilent } from '../transport/deadlines.ts';
import type { LinkSpec } from '../transport/link.ts';
import type { EngineIdentity } from '../transport/types.ts';
import type { EnginePool } from './engine-pool.ts';
import { Followers } from './followers.ts';
import type { CacheEventBatch } from './notices.ts';
import { HASH_SEED } from './options.ts';
import { STUCK, STUCK_MS } from './stuck-watch.ts';
import type { ThreadEngine } from './thread-engine.ts';
import type { ClusterOptions, StoreOptions } from './types.ts';

/** Link to a local store: this machine's memory. A modelled link applies between engines only. */
const THIS_MACHINE: LinkSpec = { name: 'memory', bytesPerSecond: Number.POSITIVE_INFINITY, latencyMs: 0 };

/** Milliseconds between checks whether a store that writes still answers and gets on. */
const LOOK_MS = 1000;
const NOTHING_WRITTEN = `it wrote nothing for ${STUCK_MS / 1000} s`;
/** After its last answer, a thread only ends, unless Node waits for its file calls. Milliseconds. */
const ENDING_MS = 5_000;

export class StoreThread {
  readonly #api: StoreApi;
  readonly #thread: EngineThread;
  readonly #clock: Clock;
  /** Aborts when its thread is gone or abandoned. */
  readonly #threadEnded = new AbortController();
  readonly #connected: ThreadEngine[] = [];
  /** Whether the engines' modelled link also applies to the store. */
  readonly #remote: boolean;
  /** Creates its channels, also to engines that join later. */
  readonly #wire: EngineWire;
  #listener: ((message: string) => void) | null = null;
  /** Messages before there was a listener. */
  readonly #undelivered: string[] = [];
  readonly #followers = new Followers((to) => {
    this.#call((api) => api.reportEvents(to)).catch(() => {});
  });
  #ended: string | null = null;
  #closing = false;

  private constructor(thread: EngineThread, remote: boolean, wire: EngineWire, clock: Clock) {
    // All methods are asynchronous already, so comlink's proxy has the same type.
    this.#api = wrap(thread.port) as unknown as StoreApi;
    this.#thread = thread;
    this.#remote = remote;
    this.#wire = wire;
    this.#clock = clock;
    thread.onExit((reason) => this.#end(reason));
  }

  /** Throws KvferryError; no thread is left running then. */
  static async start(
    platform: Platform,
    options: StoreOptions,
    { identity, checksum, namespace }: { identity: EngineIdentity; checksum: boolean; namespace: string },
    clock: Clock,
    wire: EngineWire = plainWire,
  ): Promise<StoreThread> {
    const thread = await platform.startStoreThread();
    const store = new StoreThread(thread, options.remote ?? false, wire, clock);
    const { bytes, eviction, prefetch } = options;
    const folder = options.folder ? { ...options.folder, namespace } : null;
    const server = options.server ? { ...options.server, namespace } : null;
    const start: StoreStart = {
      ...{ identity: { ...identity, ...STORE_ADDRESS }, bytes, eviction, folder, server, checksum },
      ...(prefetch ? { prefetch } : {}),
    };
    try {
      // No time limit: it may have much to read.
      await store.#unlessEnded(
        store.#api.start(
          start,
          proxy((message) => store.#report(`store: ${message}`)),
          proxy((events, atMs, to) => {
            store.#followers.tell({ engineId: STORE_ADDRESS.engineId, events, atMs }, to);
          }),
        ),
      );
      if (store.ended !== null) throw new EngineDeadError(`the store ended while starting: ${store.ended}`);
    } catch (error) {
      await store.shutdown();
      throw error;
    }
    return store;
  }

  /** Why its thread is gone or abandoned; null while it serves. */
  get ended(): string | null {
    return this.#ended;
  }

  /**
   * Calls the listener with every problem of the store, in one line each, including those before this call. Serving
   * continues. One listener only.
   */
  onTrouble(listener: (message: string) => void): void {
    this.#listener = listener;
    for (const message of this.#undelivered.splice(0)) listener(message);
  }

  /** Calls the listener with the tiers' contents as of now, and then with what enters and leaves them. */
  onEvents(listener: (batch: CacheEventBatch) => void): () => void {
    return this.#followers.add(listener);
  }

  async connect(engine: ThreadEngine): Promise<void> {
    if (this.#ended !== null) return;
    const [port1, port2] = this.#wire(engine.address, STORE_ADDRESS);
    await Promise.all([
      engine.serving.addPeer(STORE_ADDRESS, transfer(port1, [port1]), this.#remote ? null : THIS_MACHINE),
      this.#call((api) => api.addPeer(engine.address, transfer(port2, [port2]))),
    ]);
    if (this.ended !== null) {
      engine.serving.peerDied(STORE_ADDRESS.engineId).catch(() => {});
      return;
    }
    this.#connected.push(engine);
    engine.onDeath(() => {
      this.#connected.splice(this.#connected.indexOf(engine), 1);
      if (this.#ended === null) void this.#api.peerDied(engine.engineId).catch(() => {});
    });
  }

  /** Sets the link over which engines read from a remote store; null: as fast as memory. No effect on a local one. */
  async setLink(link: LinkSpec | null): Promise<void> {
    if (this.#remote) await this.#call((api) => api.setLink(link));
  }

  /** As in an engine's lab API: afterwards it must only be used for measuring. */
  async serveAnyBlock(): Promise<void> {
    await this.#call((api) => api.serveAnyBlock());
  }

  /** null: its thread is gone, or ends before it answers. */
  stats(): Promise<StoreStats | null> {
    return this.#call((api) => api.stats());
  }

  /** As StoreApi.blocks; null as for stats(). */
  blocks(since: number): Promise<StoreBlocks | null> {
    return this.#call((api) => api.blocks(since));
  }

  /** Empties its memory of everything that is not in use now. */
  async clear(): Promise<void> {
    if (this.#ended !== null) return;
    await this.#whileItWrites(this.#unlessEnded(this.#api.clear()));
  }

  async checkIntegrity(): Promise<void> {
    await this.#call((api) => api.checkIntegrity());
  }

  /** Resolves when its thread is gone or abandoned. Safe to call twice. */
  async shutdown(): Promise<void> {
    if (this.#ended !== null) return;
    this.#closing = true;
    const ended = this.#unlessEnded(new Promise<never>(() => {}));
    const answered = this.#api.shutdown();
    const late = () => this.#abandon(`it did not end within ${ENDING_MS / 1000} s`);
    answered.then(() => unlessSilent(ended, ENDING_MS, this.#clock, late)).catch(() => {});
    await this.#whileItWrites(ended);
  }

  #end(reason: string): void {
    if (this.#ended !== null) return;
    this.#ended = reason;
    if (!this.#closing) this.#report(`the store ended (${reason}): requests go on without it`);
    for (const { serving } of this.#connected) serving.peerDied(STORE_ADDRESS.engineId).catch(() => {});
    this.#threadEnded.abort();
  }

  #report(message: string): void {
    if (this.#listener) this.#listener(message);
    else this.#undelivered.push(message);
  }

  /**
   * As #unlessEnded, for work that takes the store no time: if it is not done within STUCK_MS, the thread is
   * abandoned.
   */
  async #call<T>(call: (api: StoreApi) => Promise<T>): Promise<T | null> {
    if (this.#ended !== null) return null;
    return unlessSilent(this.#unlessEnded(call(this.#api)), STUCK_MS, this.#clock, () =>
      this.#abandon(STUCK),
    );
  }

  /**
   * For work that may write much, so there is no time limit while the store answers and blocks get written. Otherwise
   * its thread is abandoned: a folder may never answer, as on a network that is down.
   */
  async #whileItWrites(work: Promise<unknown>): Promise<void> {
    const over = new AbortController();
    let written = 0;
    const look = async (): Promise<void> => {
      for (; !over.signal.aborted; await this.#clock.sleep(LOOK_MS, over.signal))
        written = writtenIn(await this.stats().catch(() => null)) ?? written;
    };
    void look();
    void silence(this.#clock, STUCK_MS, () => written, over.signal).then((isSilent) => {
      if (isSilent) this.#abandon(NOTHING_WRITTEN);
    });
    await work.finally(() => over.abort());
  }

  #abandon(reason: string): void {
    this.#thread.abandon();
    this.#end(reason);
  }

  /** Resolves to null if the thread ends first; comlink alone would wait for ever. */
  #unlessEnded<T>(answer: Promise<T>): Promise<T | null> {
    const { signal } = this.#threadEnded;
    return new Promise((resolve, reject) => {
      const onEnd = () => resolve(null);
      signal.addEventListener('abort', onEnd, { once: true });
      if (signal.aborted) onEnd();
      answer.then(resolve, reject).finally(() => signal.removeEventListener('abort', onEnd));
    });
  }
}

/** Blocks that its lower tiers have written or given up. */
const writtenIn = (stats: StoreStats | null): number | null =>
  stats &&
  sumOf([stats.folder, stats.server], (tier) => (tier ? tier.counters.written + tier.counters.leftOut : 0));

/** null: no store was asked for. Throws KvferryError, after shutting down the engines and the store. */
export async function startStore(
  platform: Platform,
  options: ClusterOptions,
  engines: EnginePool,
  { files, checkpoint }: { files: FileSource | null; checkpoint: Checkpoint | null },
  clock: Clock,
  wire?: EngineWire,
): Promise<StoreThread | null> {
  if (!options.store) return null;
  let store: StoreThread | null = null;
  try {
    const { identity, adapter } = engines.all[0]!.started;
    const weights = checkpoint && files ? await fingerprint(files, checkpoint) : null;
    const namespace = namespaceOf({ ...identity, hashSeed: HASH_SEED, adapter: adapter.name, weights });
    const { store: wanted, checksum } = options;
    store = await StoreThread.start(platform, wanted, { identity, checksum, namespace }, clock, wire);
    await store.setLink(options.link);
    for (const engine of engines.all) await store.connect(engine);
    return store;
  } catch (error) {
    await Promise.all([engines.shutdown(), store?.shutdown()]);
    throw error;
  }
}
