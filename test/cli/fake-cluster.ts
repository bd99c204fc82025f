/** A fake cluster that computes its answers by arithmetic, without engines. */
import type { Mode } from '../../src/config/modes.ts';
import type { TokenIds } from '../../src/config/token-ids.ts';
import type { ClusterNotice } from '../../src/fleet/notices.ts';
import { changed, seatsOf } from '../../src/fleet/options.ts';
import type { Cluster, ClusterInfo, ClusterOptions, PolicyChange } from '../../src/fleet/types.ts';
import type { EngineStats } from '../../src/host/engine-report.ts';
import { routerSpan, SERVED_AGAIN, type Span } from '../../src/measure/spans/spans.ts';
import type { GeneratedToken, GenerateRequest, TransferSummary } from '../../src/router/turn-types.ts';

export interface FakeTroubles {
  /** This mode gives other tokens (or other logits only) from its second turn on. */
  wrong?: { mode: Mode; what: 'token' | 'logits' };
  startFails?: Error;
  integrityFails?: Error;
  /** The threshold prevents every pull. */
  pullsNothing?: boolean;
  /** Never answers. */
  hangs?: boolean;
  adapterFails?: Error;
  /** Every turn compiles a pipeline that was not warmed up. */
  compilesLate?: boolean;
  /** Faults that options ask for have no effect. */
  faultsVanish?: boolean;
}

/** Its tokens follow from the prompt alone, so all modes agree unless `FakeTroubles` says otherwise. */
export class FakeCluster implements Cluster {
  info: ClusterInfo;
  settings: ClusterOptions;
  closed = 0;
  ended: string[] = [];
  readonly options: ClusterOptions;
  readonly engines = [];
  readonly #troubles: FakeTroubles;
  readonly #turns = new Map<string, number>();
  readonly #takenBack = new Set<string>();
  readonly #spanListeners = new Set<(span: Span) => void>();
  readonly #noticeListeners = new Set<(notice: ClusterNotice) => void>();
  #served = 0;
  /** Tokens that D holds after each turn of a conversation. */
  readonly #held = new Map<string, number[]>();

  constructor(options: ClusterOptions, troubles: FakeTroubles) {
    this.options = options;
    this.settings = options;
    this.#troubles = troubles;
    const engines = seatsOf(options).map(({ name, role }) => ({
      engineId: name,
      role,
      numBlocks: options[role].numBlocks,
      memory: { weights: 3_500_000, kv: 4_200_000 },
      loadMs: 12,
      compileMs: 345,
      pipelines: 9,
      driverThreads: true,
    }));
    this.info = {
      adapter: {
        name: 'fake maker of adapters fake-adapter-with-a-long-name-9000- fake driver 5.0.0',
        vendor: 'fake',
        architecture: 'arithmetic',
        description: 'fake maker, model 9000',
        backend: 'vulkan',
        software: true,
        features: ['subgroups'],
        subgroupSize: 4,
        limits: {
          maxBufferSize: 2 ** 30,
          maxStorageBufferBindingSize: 2 ** 27,
          maxComputeWorkgroupStorageSize: 16384,
          maxComputeInvocationsPerWorkgroup: 256,
          maxComputeWorkgroupsPerDimension: 65535,
        },
        timestampQuery: false,
      },
      model: {
        name: options.model,
        parameters: 1_769_472,
        vocabSize: 512,
        maxModelLen: options.maxModelLen,
        kvBytesPerToken: 256,
        blockBytes: 4096,
        eosTokenIds: [0],
      },
      engines,
      startMs: 2345,
      link: options.link,
    };
  }

  encode(text: string): number[] {
    return [...text].map((character) => (character.codePointAt(0)! % 500) + 8);
  }

  decode(tokenIds: readonly number[]): string {
    return tokenIds.map((id) => (id === 0 ? '<end>' : String.fromCharCode(97 + (id % 26)))).join('');
  }

  get mode(): Mode {
    return this.settings.mode;
  }

  async setMode(mode: Mode): Promise<void> {
    await this.configure({ mode });
  }

  async configure(change: PolicyChange): Promise<void> {
    this.settings = changed(this.settings, this.options, change);
    this.info = { ...this.info, link: this.settings.link };
    this.#turns.clear();
  }

  async *generate(request: GenerateRequest): AsyncGenerator<GeneratedToken> {
    if (this.#troubles.hangs) await new Promise(() => {});
    const id = request.conversationId ?? 'alone';
    const turn = (this.#turns.get(id) ?? 0) + 1;
    this.#turns.set(id, turn);
    const prompt =
      request.promptTokenIds ?? this.encode((request.messages ?? []).map((m) => m.content).join('\n'));
    const wrong = this.#wrongness(turn);
    const seed = [...prompt].reduce((sum, token, i) => (sum * 31 + token + i) % 1_000_003, 7);
    const length = Math.min(request.sampling?.maxTokens ?? 4, request.sampling?.ignoreEos ? 1e9 : 5);
    const ids = Array.from({ length }, (_, i) => ((seed + i * 17 + (wrong === 'token' ? 1 : 0)) % 500) + 8);
    if (!request.sampling?.ignoreEos) ids[ids.length - 1] = 0;
    const offered = this.mode === 'bidirectional' && turn > 1 && request.pull !== 'never';
    const held = this.#held.get(id) ?? [];
    this.#held.set(id, held);
    const offer = request.pull ? (held[turn - 2] ?? 0) : Math.max(0, prompt.length - 5);
    const pulled = offered && !this.#troubles.pullsNothing ? offer : 0;
    held[turn - 1] = prompt.length + length - 1;
    const ttftMs = 10 + (prompt.length - pulled);
    this.#tellTurn(id, turn, ttftMs, prompt);
    for (const [index, tokenId] of ids.entries()) {
      yield {
        tokenId,
        text: tokenId === 0 ? '' : this.decode([tokenId]),
        index,
        atMs: 1000 + ttftMs + 3.25 * index,
        logitsDigest: `${tokenId}${wrong === null ? '' : '!'}`,
        logits: this.options.keepLogits ? Float32Array.of(tokenId, wrong === null ? 1 : 1.5) : null,
        final:
          index < ids.length - 1
            ? null
            : {
                conversationId: id,
                turn,
                promptTokenIds: prompt,
                outputTokenIds: ids,
                text: this.decode(ids.filter((id) => id !== 0)),
                finishReason: 'stop',
                prompt: {
                  promptTokens: prompt.length,
                  localHitTokens: 0,
                  pulledTokens: pulled,
                  computedTokens: prompt.length - pulled,
                  noPull: offered && pulled === 0 ? { by: 'policy', reason: '5 < threshold 64' } : null,
                },
                ttftMs,
                tpotMs: 3.25,
                latencyMs: ttftMs + 3.25 * (ids.length - 1),
                stagesMs: { prefill: ttftMs, other: 0 },
                overlappedMs: {},
                transfer: {
                  pToD: this.mode === 'monolithic' ? null : this.#moved(prompt.length),
                  dToP: pulled > 0 ? this.#moved(pulled) : null,
                },
              },
      };
    }
  }

  async rewind(id: string): Promise<void> {
    this.#turns.set(id, (this.#turns.get(id) ?? 1) - 1);
    this.#takenBack.add(id);
  }

  async endConversation(id: string): Promise<void> {
    this.ended.push(id);
  }

  async storeStats() {
    return null;
  }

  async storeBlocks() {
    return null;
  }

  async stats(): Promise<readonly EngineStats[]> {
    if (!this.#troubles.compilesLate) return [];
    const facts = { engineId: 'decode-0', preemptions: 0, peakUsedBlocks: 1, usedBlocks: 0 };
    return [{ ...facts, firstUseCompilations: this.#served } as EngineStats];
  }

  async queryCache() {
    return { promptTokens: 0, engines: [], unanswered: [] };
  }

  async snapshot() {
    return [];
  }

  onNotice(listener: (notice: ClusterNotice) => void): () => void {
    this.#noticeListeners.add(listener);
    return () => this.#noticeListeners.delete(listener);
  }

  onStoreEvent(): () => void {
    return () => {};
  }

  onCacheEvent(): () => void {
    return () => {};
  }

  async checkIntegrity(): Promise<void> {
    if (this.#troubles.integrityFails) throw this.#troubles.integrityFails;
  }

  async revive(): Promise<number> {
    return 0;
  }

  async scale() {
    return { joined: [], left: [] };
  }

  onWaiting(): () => void {
    return () => {};
  }

  async setTiming(): Promise<boolean> {
    return true;
  }

  async takeKernelTimes() {
    const shared = { calls: 4, ns: 2e6, flops: 4e6, bytes: 1e6 };
    const totals = [
      { kernel: 'qkv', layer: 0, ...shared },
      { kernel: 'qkv', layer: 1, ...shared },
      { kernel: 'swiglu', layer: 0, ...shared, flops: 10 },
    ];
    return [{ engineId: 'prefill-0', totals, smallestStepNs: 1, ceilings: { gflops: 10, readGbps: 5 } }];
  }

  spanCounts() {
    return { spans: 0, messages: 0 };
  }

  onSpan(listener: (span: Span) => void): () => void {
    this.#spanListeners.add(listener);
    return () => this.#spanListeners.delete(listener);
  }

  #tellTurn(conversationId: string, turn: number, ttftMs: number, promptTokenIds: TokenIds): void {
    const id = `${conversationId}#${turn}.${++this.#served}`;
    const begun = 1000 * this.#served;
    const notice = { conversationId, turn, promptTokenIds, turnId: id, atMs: begun, routed: null };
    for (const listener of this.#noticeListeners) listener({ kind: 'turn', ...notice });
    const again = this.#takenBack.delete(conversationId);
    const args = { conversationId, turn, ...(again ? SERVED_AGAIN : {}) };
    const spans = [
      routerSpan('accept', `${id} at P`, begun, begun + 1),
      routerSpan('forward', `${id} at P`, begun + 1, begun + ttftMs),
      // The last two in the router's order.
      routerSpan('turn', id, begun, begun + ttftMs, args),
      routerSpan('ttft', id, begun, begun + ttftMs, args),
    ];
    const turns = [{ turnId: id, side: 'prefill' as const }];
    for (const span of spans) for (const listener of this.#spanListeners) listener({ ...span, turns });
  }

  async close(): Promise<void> {
    this.closed++;
  }

  #wrongness(turn: number): 'token' | 'logits' | null {
    const { wrong, faultsVanish } = this.#troubles;
    if (this.options.fault && !faultsVanish && this.mode === 'bidirectional') return 'logits';
    return wrong && wrong.mode === this.mode && turn > 1 ? wrong.what : null;
  }

  #moved(tokens: number): TransferSummary {
    const bytes = tokens * 256;
    const throttled = this.options.link !== null;
    return {
      bytes,
      blocks: Math.ceil(tokens / 16),
      ms: 2,
      gbps: bytes / 2e6,
      descriptors: 1,
      throttled,
      stages: {} as never,
    };
  }
}
