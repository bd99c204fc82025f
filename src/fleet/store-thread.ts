/** A store in a thread of its own: started beside the engines, connected to each, and done without when it ends, or is stuck. */
import { STORE_ADDRESS } from '../config/connectors.ts';
import type { Clock } from '../engine/types.ts';
import { EngineDeadError } from '../errors.ts';
import { proxy, transfer, wrap } from '../host/rpc.ts';
import { fingerprint } from '../model/fingerprint.ts';
import type { Checkpoint } from '../model/hf-weights.ts';
import type { EngineThread, FileSource, Platform } from '../platform/types.ts';
import { namespaceOf } from '../store/block-file.ts';
import type { StoreBlocks } from '../store/block-news.ts';
import type { StoreApi, StoreStart } from '../store/host.ts';
import type { StoreStats } from '../store/stats.ts';
import { type EngineWire, plainWire } from '../transport/channel.ts';
import { unlessSilent } from '../transport/deadlines.ts';
import type { LinkSpec } from '../transport/link.ts';
import type { EngineIdentity } from '../transport/types.ts';
import type { EnginePool } from './engine-pool.ts';
import type { CacheEventBatch } from './notices.ts';
import { HASH_SEED } from './options.ts';
import { STUCK, STUCK_MS } from './stuck-watch.ts';
import type { ThreadEngine } from './thread-engine.ts';
import type { ClusterOptions, StoreOptions } from './types.ts';

/** A modelled link lies between engines; the store is their own machine's memory. */
const THIS_MACHINE: LinkSpec = { name: 'memory', bytesPerSecond: Number.POSITIVE_INFINITY, latencyMs: 0 };

/** How often it is looked whether a store that is to end still answers. */
const LOOK_MS = 1000;

export class StoreThread {
  readonly #api: StoreApi;
  readonly #thread: EngineThread;
  readonly #clock: Clock;
  /** Aborts when its thread is gone, or given up. */
  readonly #gone = new AbortController();
  readonly #connected: ThreadEngine[] = [];
  /** The engines' own link lies before it. */
  readonly #remote: boolean;
  /** Makes its channels, to engines that come later too. */
  readonly #wire: EngineWire;
  #listener: ((message: string) => void) | null = null;
  /** What was said before anyone listened. */
  readonly #untold: string[] = [];
  readonly #followers = new Set<(batch: CacheEventBatch) => void>();
  #ended: string | null = null;
  #closing = false;

  private constructor(thread: EngineThread, remote: boolean, wire: EngineWire, clock: Clock) {
    // All of its methods are asynchronous already: what comlink makes of them has the same type.
    this.#api = wrap(thread.port) as unknown as StoreApi;
    this.#thread = thread;
    this.#remote = remote;
    this.#wire = wire;
    this.#clock = clock;
    thread.onExit((reason) => this.#end(reason));
  }

  /** Throws KvferryError, with no thread left running. */
  static async start(
    platform: Platform,
    options: StoreOptions,
    identity: EngineIdentity,
    checksum: boolean,
    namespace: string,
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
      // It may have much to read.
      await store.#unlessGone(
        store.#api.start(
          start,
          proxy((message) => store.#tell(`store: ${message}`)),
          proxy((events, atMs) => {
            const batch = { engineId: STORE_ADDRESS.engineId, events, atMs };
            for (const follower of store.#followers) follower(batch);
          }),
        ),
      );
      if (store.ended !== null) throw new EngineDeadError(`the store ended as it began: ${store.ended}`);
    } catch (error) {
      await store.shutdown();
      throw error;
    }
    return store;
  }

  /** Why its thread is gone, or given up; null while it serves. */
  get ended(): string | null {
    return this.#ended;
  }

  /** Told, in one line each, what is wrong with it, from its start on; all goes on. For one listener. */
  onTrouble(listener: (message: string) => void): void {
    this.#listener = listener;
    for (const message of this.#untold.splice(0)) listener(message);
  }

  /** Told what comes to its tiers and what leaves them; the first listener at once of what is there. */
  onEvents(listener: (batch: CacheEventBatch) => void): () => void {
    this.#followers.add(listener);
    const report = (wanted: boolean) => void this.#ask((api) => api.reportEvents(wanted)).catch(() => {});
    if (this.#followers.size === 1) report(true);
    return () => {
      if (this.#followers.delete(listener) && this.#followers.size === 0) report(false);
    };
  }

  async connect(engine: ThreadEngine): Promise<void> {
    if (this.#ended !== null) return;
    const [port1, port2] = this.#wire(engine.address, STORE_ADDRESS);
    await Promise.all([
      engine.serving.addPeer(STORE_ADDRESS, transfer(port1, [port1]), this.#remote ? null : THIS_MACHINE),
      this.#ask((api) => api.addPeer(engine.address, transfer(port2, [port2]))),
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

  /** Of what engines read from it, where it is not of their own machine; null: as fast as memory. */
  async setLink(link: LinkSpec | null): Promise<void> {
    if (this.#remote) await this.#ask((api) => api.setLink(link));
  }

  /** As an engine's lab has it: what it serves afterwards is for measuring only. */
  async serveAnyBlock(): Promise<void> {
    await this.#ask((api) => api.serveAnyBlock());
  }

  /** null when its thread is gone, or goes before it answers. */
  stats(): Promise<StoreStats | null> {
    return this.#ask((api) => api.stats());
  }

  /** As StoreApi has it; null as above. */
  blocks(since: number): Promise<StoreBlocks | null> {
    return this.#ask((api) => api.blocks(since));
  }

  /** What it has is forgotten, as far as nobody uses it now. */
  async clear(): Promise<void> {
    await this.#ask((api) => api.clear());
  }

  async checkIntegrity(): Promise<void> {
    await this.#ask((api) => api.checkIntegrity());
  }

  /** Resolves when its thread is gone, or given up. Safe to call twice. */
  async shutdown(): Promise<void> {
    if (this.#ended !== null) return;
    this.#closing = true;
    void this.#api.shutdown().catch(() => {});
    // What it has to write may take long: it is waited for while it answers.
    for (; this.#ended === null; await this.#clock.sleep(LOOK_MS, this.#gone.signal))
      await this.stats().catch(() => null);
  }

  #end(reason: string): void {
    if (this.#ended !== null) return;
    this.#ended = reason;
    if (!this.#closing) this.#tell(`the store ended (${reason}): requests go on without it`);
    for (const { serving } of this.#connected) serving.peerDied(STORE_ADDRESS.engineId).catch(() => {});
    this.#gone.abort();
  }

  #tell(message: string): void {
    if (this.#listener) this.#listener(message);
    else this.#untold.push(message);
  }

  /** As #unlessGone; what takes it no time: where it does not come, the thread is given up. */
  async #ask<T>(call: (api: StoreApi) => Promise<T>): Promise<T | null> {
    if (this.#ended !== null) return null;
    return unlessSilent(this.#unlessGone(call(this.#api)), STUCK_MS, this.#clock, () => {
      this.#thread.abandon();
      this.#end(STUCK);
    });
  }

  /** null when its thread goes before: comlink alone would wait for ever. */
  #unlessGone<T>(answer: Promise<T>): Promise<T | null> {
    const { signal } = this.#gone;
    return new Promise((resolve, reject) => {
      const gone = () => resolve(null);
      signal.addEventListener('abort', gone, { once: true });
      if (signal.aborted) gone();
      answer.then(resolve, reject).finally(() => signal.removeEventListener('abort', gone));
    });
  }
}

/** null: none is wanted. Throws KvferryError, with nothing left running. */
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
    store = await StoreThread.start(platform, wanted, identity, checksum, namespace, clock, wire);
    await store.setLink(options.link);
    for (const engine of engines.all) await store.connect(engine);
    return store;
  } catch (error) {
    await Promise.all([engines.shutdown(), store?.shutdown()]);
    throw error;
  }
}
