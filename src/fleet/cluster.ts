/**
 * Engines in threads behind one generate(): starts them, sets them, watches them, and lets the router serve turns over them.
 * How a turn goes through the engines is the router's business (src/router).
 */
import type { Mode } from '../config/modes.ts';
import type { Clock } from '../engine/types.ts';
import { RequestError } from '../errors.ts';
import type { EngineStats } from '../host/engine-api.ts';
import type { MeasuredKernels } from '../measure/profile.ts';
import type { SpanCounts } from '../measure/span-cost.ts';
import type { Span } from '../measure/spans.ts';
import type { TimingMode } from '../model/kernel-timing.ts';
import { loadTokenizer, type TextModel } from '../model/load.ts';
import { loadArchitecture } from '../model/load-weights.ts';
import { kvBlockBytes } from '../model/types.ts';
import { systemClock } from '../platform/clock.ts';
import type { Platform } from '../platform/types.ts';
import { ConversationCache, release } from '../router/conversations.ts';
import type { EngineClient, EngineRole } from '../router/engine-client.ts';
import { PromptBuilder } from '../router/prompts.ts';
import { unguessable } from '../router/request-id.ts';
import { takeBack } from '../router/rewind.ts';
import { Router } from '../router/router.ts';
import { TurnSpans } from '../router/turn-spans.ts';
import type { GeneratedToken, GenerateRequest } from '../router/turn-types.ts';
import { type CacheEventBatch, CacheWatch } from './cache-watch.ts';
import { describe } from './describe.ts';
import { droppedNote } from './dropped-note.ts';
import { EnginePool } from './engine-pool.ts';
import { type ClusterNotice, EngineWatch } from './engine-watch.ts';
import { checkMemory, sharedMemory } from './memory-needs.ts';
import { changed, type EngineSpec, engineCore, fleetIn } from './options.ts';
import { type MadePolicy, policyOf, RoutingInForce } from './routing-in-force.ts';
import { type StoreThread, startStore } from './store-thread.ts';
import type { ThreadEngine } from './thread-engine.ts';
import type {
  CacheQuery,
  Cluster,
  ClusterInfo,
  ClusterOptions,
  ClusterSeams,
  EngineLookup,
  EngineSnapshot,
  PolicyChange,
} from './types.ts';

export class EngineCluster implements Cluster {
  #info: ClusterInfo;
  /** What is in force; the engines' memory is as it was at the start. */
  #options: ClusterOptions;
  readonly #atStart: ClusterOptions;
  readonly #engines: EnginePool;
  readonly #store: StoreThread | null;
  readonly #text: TextModel;
  readonly #prompts: PromptBuilder;
  readonly #conversations: ConversationCache;
  readonly #clock: Clock;
  readonly #router: Router;
  #routing: RoutingInForce;
  readonly #spans = new TurnSpans();
  readonly #cacheWatch = new CacheWatch();
  readonly #engineWatch = new EngineWatch();
  /** Turns under way, and changes of settings: never both. */
  #active = 0;
  #changing = 0;

  private constructor(
    options: ClusterOptions,
    engines: EnginePool,
    text: TextModel,
    info: ClusterInfo,
    clock: Clock,
    client: NonNullable<ClusterSeams['client']>,
    policy: MadePolicy,
    store: StoreThread | null,
  ) {
    this.#store = store;
    store?.onTrouble((message) => this.#engineWatch.tell({ kind: 'store', message }));
    this.#options = options;
    this.#atStart = options;
    this.#engines = engines;
    this.#text = text;
    this.#prompts = new PromptBuilder(text);
    this.#conversations = new ConversationCache(clock);
    this.#clock = clock;
    const clients = new WeakMap<ThreadEngine, EngineClient>();
    const clientOf = (engine: ThreadEngine): EngineClient => {
      const known = clients.get(engine) ?? client(engine);
      clients.set(engine, known);
      return known;
    };
    this.#router = new Router({
      text,
      prompts: this.#prompts,
      conversations: this.#conversations,
      clock,
      routing: () => this.#routing,
      placement: { mode: options.placement ?? 'pooled', rolesets: fleetIn(options).rolesets },
      settings: () => {
        const { mode, handover, link } = this.#options;
        return { mode, handover, throttled: link !== null || fleetIn(this.#options).links.length > 0 };
      },
      engines: () => engines.all.map(clientOf),
      onTurn: (turn) => this.#engineWatch.tell({ kind: 'turn', ...turn }),
      onRequest: (request) => this.#engineWatch.tell({ kind: 'request', ...request }),
      newId: unguessable,
      spans: this.#spans,
    });
    this.#info = info;
    for (const engine of engines.all) {
      this.#listen(engine, null);
      this.#cacheWatch.watch(engine, null);
    }
    this.#routing = this.#routes(policy, options);
  }

  /** Reads the tokenizer while the engines start. Throws KvferryError, with nothing left running. */
  static async start(
    platform: Platform,
    options: ClusterOptions,
    clock: Clock = systemClock,
    { wire, client = (engine) => engine }: ClusterSeams = {},
  ): Promise<EngineCluster> {
    const begun = clock.now();
    const files = await platform.openModel(options.model);
    const architecture = await loadArchitecture(options.model, files);
    const free = platform.freeMemory();
    checkMemory(options, architecture, free);
    const policy = await policyOf(options, kvBlockBytes(architecture, 1, options.kvDtype));
    const [text, engines] = await Promise.allSettled([
      loadTokenizer(options.model, files),
      EnginePool.start(platform, clock, options, sharedMemory(options, architecture, free), wire),
    ]);
    if (text.status === 'rejected') {
      if (engines.status === 'fulfilled') await engines.value.shutdown();
      throw text.reason;
    }
    if (engines.status === 'rejected') throw engines.reason;
    const store = await startStore(platform, options, engines.value, files, wire);
    const info = describe(options, engines.value.all, text.value, clock.now() - begun);
    return new EngineCluster(options, engines.value, text.value, info, clock, client, policy, store);
  }

  get info(): ClusterInfo {
    return this.#info;
  }

  get mode(): Mode {
    return this.#options.mode;
  }

  get settings(): Readonly<ClusterOptions> {
    return this.#options;
  }

  /** Tokenizer, chat template and shape of the model. */
  get text(): TextModel {
    return this.#text;
  }

  get engines(): readonly ThreadEngine[] {
    return this.#engines.all;
  }

  encode(text: string): number[] {
    return this.#text.tokenizer.encode(text);
  }

  decode(tokenIds: readonly number[]): string {
    return this.#text.tokenizer.decode(tokenIds);
  }

  async setMode(mode: Mode): Promise<void> {
    await this.configure({ mode });
  }

  async configure(change: PolicyChange): Promise<void> {
    const options = changed(this.#options, this.#atStart, change);
    const policy = await policyOf(options, this.#info.model.kvBytesPerToken);
    if (this.#active > 0)
      throw new RequestError(`${this.#active} turns are under way: wait for them before a setting changes`);
    this.#conversations.clear();
    this.#routing.end();
    this.#routing = this.#routes(policy, options);
    // An engine that ends meanwhile is built with the new settings when it is built anew.
    this.#options = options;
    this.#info = { ...this.#info, link: options.link };
    this.#changing++;
    try {
      await this.#engines.each(({ serving }) => serving.releaseHolds('all'));
      await this.#engines.each((engine, spec) => reconfigure(engine, spec, options));
      await this.#store?.clear();
    } finally {
      this.#changing--;
    }
  }

  async *generate(request: GenerateRequest): AsyncGenerator<GeneratedToken> {
    if (this.#changing > 0) throw new RequestError('a setting is being changed: wait until it has been');
    this.#active++;
    try {
      yield* this.#router.serve(request);
    } finally {
      this.#active--;
    }
  }

  async rewind(conversationId: string, prefillKeeps?: number): Promise<void> {
    const conversation = this.#conversations.known(conversationId);
    const { blockSize } = this.#options;
    const unused = await takeBack(conversationId, conversation, blockSize, prefillKeeps ?? null);
    if (unused) release(unused);
  }

  async endConversation(conversationId: string): Promise<void> {
    this.#conversations.forget(conversationId);
  }

  async stats(): Promise<readonly EngineStats[]> {
    return this.#engines.each(({ inspection }) => inspection.stats());
  }

  async storeStats() {
    return (await this.#store?.stats()) ?? null;
  }

  async queryCache(query: CacheQuery): Promise<{ promptTokens: number; engines: readonly EngineLookup[] }> {
    const conversation = this.#conversations.find({ ...query, conversationId: query.conversationId ?? null });
    const tokenIds = await this.#prompts.build(query, conversation);
    const engines = await this.#engines.each(async (engine) => {
      const { engineId, role } = engine;
      return { engineId, role, ...(await engine.lookup(tokenIds, query.cacheSalt ?? null)) };
    });
    return { promptTokens: tokenIds.length, engines };
  }

  async snapshot(): Promise<readonly EngineSnapshot[]> {
    return this.#engines.each(async ({ engineId, role, inspection }) => {
      const [blocks, stats] = await Promise.all([inspection.blocks(), inspection.stats()]);
      return { engineId, role, blocks, stats };
    });
  }

  onNotice(listener: (notice: ClusterNotice) => void): () => void {
    return this.#engineWatch.listen(listener);
  }

  onCacheEvent(listener: (batch: CacheEventBatch) => void): () => void {
    return this.#cacheWatch.listen(listener);
  }

  async checkIntegrity(): Promise<void> {
    await this.#engines.each(({ inspection }) => inspection.checkIntegrity());
    await this.#store?.checkIntegrity();
  }

  async setTiming(mode: TimingMode | null): Promise<boolean> {
    const timed = await this.#engines.each(({ lab }) => lab.setTiming(mode));
    return timed.every(Boolean);
  }

  async takeKernelTimes(): Promise<readonly MeasuredKernels[]> {
    const taken: MeasuredKernels[] = [];
    // One after the other: ceilings are measured on a machine that does nothing else.
    for (const { lab } of this.#engines.all) taken.push(await lab.takeKernelTimes());
    return taken;
  }

  spanCounts(): SpanCounts {
    const messages = this.#engines.all.map(({ spanMessages }) => spanMessages);
    return { spans: this.#spans.count, messages: messages.reduce((sum, count) => sum + count, 0) };
  }

  onSpan(listener: (span: Span) => void): () => void {
    return this.#spans.listen(listener);
  }

  onWaiting(listener: (requestId: string, reason: string) => void): () => void {
    return this.#engineWatch.listen((notice) => {
      if (notice.kind === 'store') listener('', notice.message);
      if (notice.kind !== 'engine') return;
      const { engineId, event } = notice;
      if (event.kind === 'waiting') listener(event.requestId, `${engineId}: ${event.reason}`);
      else if (event.kind === 'hold_dropped')
        listener(event.requestId, `${engineId}: ${droppedNote(event.direction)}`);
    });
  }

  async revive(): Promise<number> {
    try {
      return await this.#engines.replaceDead(this.mode, async (engine, spec, replaced) => {
        await reconfigure(engine, spec, this.#options);
        await this.#store?.connect(engine);
        this.#listen(engine, replaced.engineId);
        this.#routing.follow(engine);
        this.#cacheWatch.watch(engine, { atMs: this.#clock.now() });
      });
    } finally {
      const { engines } = describe(this.#atStart, this.#engines.all, this.#text, 0);
      this.#info = { ...this.#info, engines };
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#engines.shutdown(), this.#store?.shutdown()]);
  }

  /** The role's first that serves, if one does: for whoever looks under the hood, or asks one engine alone. */
  engine(role: EngineRole): ThreadEngine {
    const engines = this.#engines.all.filter((engine) => engine.role === role);
    return engines.find(({ ended }) => !ended) ?? engines[0]!;
  }

  #routes = (policy: MadePolicy, options: ClusterOptions): RoutingInForce =>
    new RoutingInForce(policy, options, this.#engines.all, this.#cacheWatch);

  #listen(engine: ThreadEngine, replaces: string | null): void {
    this.#engineWatch.watch(engine, replaces);
    engine.onSpan((span) => this.#spans.tell(span));
  }
}

const reconfigure = (engine: ThreadEngine, spec: EngineSpec, options: ClusterOptions): Promise<void> =>
  engine.serving.reconfigure(engineCore(options, spec, engine.engineId, options.mode), options.link);
