/** The read-only part of a cluster: queries and listeners. They do not change how turns are served. */
import { written } from '../config/token-ids.ts';
import type { Clock } from '../engine/types.ts';
import type { EngineStats } from '../host/engine-report.ts';
import type { MeasuredKernels, TimingMode } from '../measure/spans/profile.ts';
import type { Span } from '../measure/spans/spans.ts';
import type { SpanCounts } from '../measure/summaries/span-cost.ts';
import type { TextModel } from '../model/load.ts';
import { ConversationCache } from '../router/conversations.ts';
import type { EngineRole } from '../router/engine-client.ts';
import { PromptBuilder } from '../router/prompts.ts';
import { sum } from '../sum.ts';
import type { EnginePool } from './engine-pool.ts';
import { kernelTimesOf, lookupIn, reportWaiting, snapshotOf } from './fleet-queries.ts';
import type { LoadNews } from './load-watch.ts';
import type { CacheEventBatch, ClusterNotice } from './notices.ts';
import { safeListener } from './safe-listener.ts';
import type { ClusterParts } from './start.ts';
import type { StoreThread } from './store-thread.ts';
import type { ThreadEngine } from './thread-engine.ts';
import type { CacheAnswers, CacheQuery, EngineSnapshot } from './types.ts';
import { Watches } from './watches.ts';

export abstract class ShownCluster {
  /** Tokeniser, chat template and architecture of the model. */
  readonly text: TextModel;
  /** For diagnostics and tests; null: there is no store. */
  readonly store: StoreThread | null;
  protected readonly pool: EnginePool;
  protected readonly clock: Clock;
  protected readonly prompts: PromptBuilder;
  protected readonly conversations: ConversationCache;
  protected readonly watches = new Watches();

  constructor({ pool, text, clock, store }: Pick<ClusterParts, 'pool' | 'text' | 'clock' | 'store'>) {
    this.pool = pool;
    this.text = text;
    this.clock = clock;
    this.store = store;
    this.prompts = new PromptBuilder(text);
    this.conversations = new ConversationCache(clock);
    store?.onTrouble((message) => this.watches.engines.notify({ kind: 'store', message }));
    for (const engine of pool.all) this.watches.first(engine);
  }

  get engines(): readonly ThreadEngine[] {
    return this.pool.all;
  }

  /**
   * The role's first engine that serves, otherwise its first. For diagnostics, tests, and requests to one engine
   * alone.
   */
  engine(role: EngineRole): ThreadEngine {
    return this.pool.first(role);
  }

  encode(text: string): number[] {
    return this.text.tokenizer.encode(text);
  }

  decode(tokenIds: readonly number[]): string {
    return this.text.tokenizer.decode(tokenIds);
  }

  async stats(): Promise<readonly EngineStats[]> {
    return this.pool.each(({ inspection }) => inspection.stats());
  }

  async storeStats() {
    return (await this.store?.stats()) ?? null;
  }

  async storeBlocks(since: number) {
    return (await this.store?.blocks(since)) ?? null;
  }

  async queryCache(query: CacheQuery, patienceMs: number | null = null): Promise<CacheAnswers> {
    const { conversationId = null, cacheSalt = null } = query;
    const conversation = this.conversations.find({ ...query, conversationId });
    const tokenIds = await this.prompts.build(query, conversation);
    const found = await lookupIn(this.pool, written(tokenIds), cacheSalt, this.clock, patienceMs);
    return { promptTokens: tokenIds.length, ...found };
  }

  /** Prompt and answer of the conversation's last turn, and its number of turns; null: it is not remembered. */
  historyOf(conversationId: string): { tokenIds: readonly number[]; turns: number } | null {
    const known = this.conversations.known(conversationId);
    return known && { tokenIds: written(known.historyIds), turns: known.turns };
  }

  async snapshot(): Promise<readonly EngineSnapshot[]> {
    return snapshotOf(this.pool);
  }

  async checkIntegrity(): Promise<void> {
    await this.pool.each(({ inspection }) => inspection.checkIntegrity());
    await this.store?.checkIntegrity();
  }

  async setTiming(mode: TimingMode | null): Promise<boolean> {
    const timed = await this.pool.each(({ lab }) => lab.setTiming(mode));
    return timed.every(Boolean);
  }

  async takeKernelTimes(): Promise<readonly MeasuredKernels[]> {
    return kernelTimesOf(this.pool);
  }

  spanCounts(): SpanCounts {
    const messages = this.pool.all.map(({ spanMessages }) => spanMessages);
    return { spans: this.watches.spans.count, messages: sum(messages) };
  }

  onNotice(listener: (notice: ClusterNotice) => void): () => void {
    return this.watches.engines.listen(safeListener(listener));
  }

  onCacheEvent(listener: (batch: CacheEventBatch) => void): () => void {
    return this.watches.caches.listen(safeListener(listener));
  }

  onStoreEvent(listener: (batch: CacheEventBatch) => void): () => void {
    return this.store?.onEvents(safeListener(listener)) ?? (() => {});
  }

  onSpan(listener: (span: Span) => void): () => void {
    return this.watches.spans.listen(safeListener(listener));
  }

  onWaiting(listener: (requestId: string, reason: string) => void): () => void {
    const safe = safeListener(listener);
    return this.watches.engines.listen((notice) => reportWaiting(notice, safe));
  }

  /**
   * Calls the listener with each engine's load as far as it is known, and then after its steps. Costs nothing while there
   * is no listener.
   */
  onLoad(listener: (news: LoadNews) => void): () => void {
    return this.watches.loads.listen(safeListener(listener));
  }
}
