/**
 * Engines in threads behind one generate(): starts them, sets them, watches them, and lets the router serve turns over them.
 * How a turn goes through the engines is the router's business (src/router).
 */

import type { Mode } from '../config/modes.ts';
import { written } from '../config/token-ids.ts';
import type { Clock } from '../engine/types.ts';
import { ConflictError, RequestError } from '../errors.ts';
import type { EngineStats } from '../host/engine-report.ts';
import type { MeasuredKernels, TimingMode } from '../measure/profile.ts';
import type { SpanCounts } from '../measure/span-cost.ts';
import type { Span } from '../measure/spans.ts';
import type { TextModel } from '../model/load.ts';
import { systemClock } from '../platform/clock.ts';
import type { Platform } from '../platform/types.ts';
import { ConversationCache, type ConversationHistory } from '../router/conversations.ts';
import type { EngineRole } from '../router/engine-client.ts';
import { release } from '../router/held.ts';
import { PromptBuilder } from '../router/prompts.ts';
import { unguessable } from '../router/request-id.ts';
import { takeBack } from '../router/rewind.ts';
import { Router } from '../router/router.ts';
import { type DrainRule, WAIT_30S } from '../router/scaling/drain.ts';
import type { ScaleTarget } from '../router/scaling/plan.ts';
import type { GeneratedToken, GenerateRequest } from '../router/turn-types.ts';
import { describe } from './describe.ts';
import type { EnginePool } from './engine-pool.ts';
import { kernelTimesOf, lookupIn, snapshotOf, tellWaiting } from './look.ts';
import { Membership } from './membership.ts';
import type { CacheEventBatch, ClusterNotice } from './notices.ts';
import { changed, engineCore, fleetIn } from './options.ts';
import type { LoadNews } from './report-watch.ts';
import { policyOf } from './routing-in-force.ts';
import { Routings } from './routings.ts';
import { type MembershipNotice, type ScaleReport, scaleSpan } from './scale-report.ts';
import type { ClusterSeams } from './seams.ts';
import type { Seat } from './seats.ts';
import { type ClusterParts, startParts } from './start.ts';
import type { StoreThread } from './store-thread.ts';
import type { ThreadEngine } from './thread-engine.ts';
import type {
  CacheQuery,
  Cluster,
  ClusterInfo,
  ClusterOptions,
  EngineLookup,
  EngineSnapshot,
  PolicyChange,
} from './types.ts';
import { Watches } from './watches.ts';

export class EngineCluster implements Cluster {
  #info: ClusterInfo;
  /** What is in force; the engines' memory is as it was at the start. */
  #options: ClusterOptions;
  #atStart: ClusterOptions;
  readonly #engines: EnginePool;
  readonly #store: StoreThread | null;
  readonly #text: TextModel;
  readonly #prompts: PromptBuilder;
  readonly #conversations: ConversationCache;
  readonly #clock: Clock;
  readonly #router: Router;
  /** Who stays and who is on the way out. */
  readonly members: Membership;
  readonly #routings: Routings;
  readonly #watches = new Watches();
  /** Turns under way, and changes of settings: never both. */
  #active = 0;
  #changing = 0;

  private constructor(parts: ClusterParts) {
    const { options, pool, text, info, policy, clock, clientOf, store } = parts;
    this.#store = store;
    this.#options = options;
    this.#atStart = options;
    this.#engines = pool;
    this.#text = text;
    this.#prompts = new PromptBuilder(text);
    this.#conversations = new ConversationCache(clock);
    this.#clock = clock;
    const tell = (notice: ClusterNotice): void => this.#watches.engines.tell(notice);
    store?.onTrouble((message) => tell({ kind: 'store', message }));
    this.#router = new Router({
      text,
      prompts: this.#prompts,
      conversations: this.#conversations,
      clock,
      routing: (name) => this.#routings.of(name),
      placement: { mode: options.placement ?? 'pooled', rolesets: fleetIn(options).rolesets },
      settings: () => {
        const { mode, handover, link } = this.#options;
        return { mode, handover, throttled: link !== null || fleetIn(this.#options).links.length > 0 };
      },
      engines: () => this.members.staying.map(clientOf),
      onTurn: (turn) => tell({ kind: 'turn', ...turn }),
      onTurnEnd: (result) => tell({ kind: 'turn ended', result }),
      onRequest: (request) => tell({ kind: 'request', ...request }),
      newId: unguessable,
      maxModelLen: options.maxModelLen,
      spans: this.#watches.spans,
    });
    this.members = new Membership({
      pool,
      clock,
      conversations: this.#conversations,
      turns: this.#router.turnsAt,
      options: () => this.#options,
      clientOf,
      checkRoom: (more) => parts.checkRoom(this.#options, more),
      joins: (engine, spec, replaced) => this.#joins(engine, spec, replaced),
      tell: (notice) => this.#memberNotice(notice),
      newId: unguessable,
    });
    this.#info = info;
    for (const engine of pool.all) this.#watches.first(engine);
    this.#routings = new Routings(pool, this.#watches, policy, options);
  }

  /** Throws KvferryError, with nothing left running. */
  static async start(
    platform: Platform,
    options: ClusterOptions,
    clock: Clock = systemClock,
    seams: ClusterSeams = {},
  ): Promise<EngineCluster> {
    return new EngineCluster(await startParts(platform, options, clock, seams));
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
    const policy = await policyOf(options, this.#info.model.blockBytes);
    if (this.members.changing)
      throw new RequestError('the fleet is being scaled: wait for that before a setting changes');
    if (this.#active > 0)
      throw new RequestError(`${this.#active} turns are under way: wait for them before a setting changes`);
    this.#conversations.clear();
    this.#routings.replace(policy, options);
    // An engine that ends meanwhile is built with the new settings when it is built anew.
    this.#options = options;
    this.#info = { ...this.#info, link: options.link };
    this.#changing++;
    try {
      await this.members.inTurn(async () => {
        await this.#engines.each(({ serving }) => serving.releaseHolds('all'));
        await this.#engines.each((engine, spec) => reconfigure(engine, spec, options));
        await this.#store?.clear();
        await this.#store?.setLink(options.link);
      });
    } finally {
      this.#changing--;
    }
  }

  async *generate(request: GenerateRequest): AsyncGenerator<GeneratedToken> {
    if (this.#changing > 0) throw new RequestError('a setting is being changed: wait until it has been');
    this.#active++;
    let leave = (): void => {};
    try {
      if (request.routing)
        leave = await this.#routings.enter(request.routing, this.#options, this.#info.model.blockBytes);
      yield* this.#router.serve(request);
    } finally {
      leave();
      this.#active--;
    }
  }

  async rewind(conversationId: string, prefillKeeps?: number): Promise<void> {
    const conversation = this.#conversations.known(conversationId);
    const { blockSize } = this.#options;
    const unused = await takeBack(conversationId, conversation, blockSize, prefillKeeps ?? null);
    if (unused) release(unused);
  }

  /** Prompt and answer of its last turn, and how many turns there were; null: nothing is remembered of it. */
  historyOf(conversationId: string): { tokenIds: readonly number[]; turns: number } | null {
    const known = this.#conversations.known(conversationId);
    return known && { tokenIds: written(known.historyIds), turns: known.turns };
  }

  /** Goes on with a conversation of before, as if its last turn had ended here: no engine holds anything for it. */
  resumeConversation(conversationId: string, history: ConversationHistory): void {
    this.#conversations.resume(conversationId, history);
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

  async storeBlocks(since: number) {
    return (await this.#store?.blocks(since)) ?? null;
  }

  async queryCache(query: CacheQuery): Promise<{ promptTokens: number; engines: readonly EngineLookup[] }> {
    const conversation = this.#conversations.find({ ...query, conversationId: query.conversationId ?? null });
    const tokenIds = await this.#prompts.build(query, conversation);
    const engines = await lookupIn(this.#engines, written(tokenIds), query.cacheSalt ?? null);
    return { promptTokens: tokenIds.length, engines };
  }

  async snapshot(): Promise<readonly EngineSnapshot[]> {
    return snapshotOf(this.#engines);
  }

  onNotice(listener: (notice: ClusterNotice) => void): () => void {
    return this.#watches.engines.listen(listener);
  }

  onCacheEvent(listener: (batch: CacheEventBatch) => void): () => void {
    return this.#watches.caches.listen(listener);
  }

  onStoreEvent(listener: (batch: CacheEventBatch) => void): () => void {
    return this.#store?.onEvents(listener) ?? (() => {});
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
    return kernelTimesOf(this.#engines);
  }

  spanCounts(): SpanCounts {
    const messages = this.#engines.all.map(({ spanMessages }) => spanMessages);
    return { spans: this.#watches.spans.count, messages: messages.reduce((sum, count) => sum + count, 0) };
  }

  onSpan(listener: (span: Span) => void): () => void {
    return this.#watches.spans.listen(listener);
  }

  onWaiting(listener: (requestId: string, reason: string) => void): () => void {
    return this.#watches.engines.listen((notice) => tellWaiting(notice, listener));
  }

  revive(): Promise<number> {
    return this.members.revive();
  }

  /** `why`: who asks, for spans. */
  async scale(target: ScaleTarget, drain?: DrainRule, why = 'asked for'): Promise<ScaleReport> {
    if (this.#changing > 0) throw new ConflictError('a setting is being changed: wait until it has been');
    const begunMs = this.#clock.now();
    const report = await this.members.scale(target, drain ?? this.#options.drain ?? WAIT_30S);
    this.#watches.spans.tell(scaleSpan(begunMs, this.#clock.now(), report, why));
    return report;
  }

  /** Told how busy an engine is, after its steps. Costs nothing while nobody listens. */
  onLoad(listener: (news: LoadNews) => void): () => void {
    return this.#watches.loads.listen(listener);
  }

  async close(): Promise<void> {
    await Promise.all([this.members.close(), this.#store?.shutdown()]);
  }

  /** For whoever looks under the hood; null: there is none. */
  get store(): StoreThread | null {
    return this.#store;
  }

  /** The role's first that serves, if one does: for whoever looks under the hood, or asks one engine alone. */
  engine(role: EngineRole): ThreadEngine {
    return this.#engines.first(role);
  }

  async #joins(engine: ThreadEngine, spec: Seat, replaced: ThreadEngine | null): Promise<void> {
    await reconfigure(engine, spec, this.#options);
    await this.#store?.connect(engine);
    this.#watches.joined(engine, replaced?.engineId ?? null, this.#clock.now());
    this.#routings.follow(engine);
  }

  #memberNotice(notice: MembershipNotice): void {
    const { fleet } = this.#engines;
    this.#options = { ...this.#options, fleet };
    this.#atStart = { ...this.#atStart, fleet };
    const { engines } = describe(this.#atStart, this.#engines, this.#text, 0);
    this.#info = { ...this.#info, engines };
    this.#watches.engines.tell(notice);
  }
}

const reconfigure = (engine: ThreadEngine, spec: Seat, options: ClusterOptions): Promise<void> =>
  engine.serving.reconfigure(engineCore(options, spec, engine.engineId, options.mode), options.link);
