/** A prefill engine and a decode engine (or more of each) behind one generate(). Wiring and turn book-keeping; the turn itself is router.ts. */
import type { EngineCoreConfig } from '../config/engine.ts';
import type { Clock, FinishReason, SamplingParams } from '../engine/types.ts';
import { RequestError } from '../errors.ts';
import type { Span } from '../measure/spans.ts';
import { loadTokenizer, type TextModel } from '../model/load.ts';
import { kvBlockBytes } from '../model/types.ts';
import { systemClock } from '../platform/clock.ts';
import type { Platform } from '../platform/types.ts';
import { type Conversation, ConversationCache } from './conversations.ts';
import { EngineHandle } from './engine-handle.ts';
import { engineStart } from './options.ts';
import type { TimedOutput } from './output-stream.ts';
import { PromptBuilder } from './prompts.ts';
import { disaggregatedTurn, monolithicTurn, type Turn } from './router.ts';
import { transfer } from './rpc.ts';
import { ServedTurn } from './served-turn.ts';
import type {
  Cluster,
  ClusterInfo,
  ClusterOptions,
  EngineStats,
  GeneratedToken,
  GenerateRequest,
  Mode,
  TurnResult,
} from './types.ts';

export const DEFAULT_SAMPLING: SamplingParams = {
  maxTokens: 128,
  minTokens: 0,
  temperature: 0,
  topK: 0,
  topP: 1,
  seed: 0,
  stopTokenIds: [],
  ignoreEos: false,
};

export class EngineCluster implements Cluster {
  readonly info: ClusterInfo;
  #mode: Mode;
  readonly #options: ClusterOptions;
  readonly #prefill: readonly EngineHandle[];
  readonly #decode: readonly EngineHandle[];
  readonly #text: TextModel;
  readonly #prompts: PromptBuilder;
  readonly #conversations: ConversationCache;
  readonly #clock: Clock;
  readonly #spanListeners = new Set<(span: Span) => void>();
  #requests = 0;
  #active = 0;
  #next = { prefill: 0, decode: 0 };

  private constructor(
    options: ClusterOptions,
    prefill: readonly EngineHandle[],
    decode: readonly EngineHandle[],
    text: TextModel,
    info: ClusterInfo,
    clock: Clock,
  ) {
    this.#options = options;
    this.#mode = options.mode;
    this.#prefill = prefill;
    this.#decode = decode;
    this.#text = text;
    this.#prompts = new PromptBuilder(text);
    this.#conversations = new ConversationCache(clock);
    this.#clock = clock;
    this.info = info;
    for (const engine of this.#engines()) engine.onSpan((span) => this.#emit(span));
  }

  /** Starts the engines side by side. Throws KvferryError, with nothing left running. */
  static async start(
    platform: Platform,
    options: ClusterOptions,
    clock: Clock = systemClock,
  ): Promise<EngineCluster> {
    const begun = clock.now();
    const text = await loadTokenizer(options.model, await platform.openModel(options.model));
    const starts = (['prefill', 'decode'] as const).map((role) => ({
      role,
      start: engineStart(options, role, options.mode),
    }));
    const settled = await Promise.allSettled(
      starts.map(({ role, start }) => EngineHandle.start(platform, start, role)),
    );
    const engines = settled.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
    try {
      for (const result of settled) if (result.status === 'rejected') throw result.reason;
      await connectAll(engines);
    } catch (error) {
      await Promise.all(engines.map((engine) => engine.shutdown()));
      throw error;
    }
    const info = describe(options, engines, text, clock.now() - begun);
    const by = (role: string): EngineHandle[] => engines.filter((engine) => engine.role === role);
    return new EngineCluster(options, by('prefill'), by('decode'), text, info, clock);
  }

  get mode(): Mode {
    return this.#mode;
  }

  encode(text: string): number[] {
    return this.#text.tokenizer.encode(text);
  }

  decode(tokenIds: readonly number[]): string {
    return this.#text.tokenizer.decode(tokenIds);
  }

  async setMode(mode: Mode): Promise<void> {
    if (this.#active > 0)
      throw new RequestError(`${this.#active} turns are under way: wait for them before the mode changes`);
    this.#conversations.clear();
    await Promise.all(this.#engines().map((engine) => engine.call((api) => api.releaseHolds('all'))));
    await Promise.all(
      this.#engines().map((engine) => engine.call((api) => api.reconfigure(this.#core(engine, mode)))),
    );
    this.#mode = mode;
  }

  async *generate(request: GenerateRequest): AsyncGenerator<GeneratedToken> {
    const acceptedMs = this.#clock.now();
    const conversation = this.#conversations.get(request.conversationId ?? `anonymous-${++this.#requests}`);
    const turn: Turn = {
      requestId: `${conversation.id}#${conversation.turns + 1}.${++this.#requests}`,
      promptTokenIds: this.#prompts.build(request, conversation),
      sampling: { ...DEFAULT_SAMPLING, ...request.sampling },
      cacheSalt: null,
      remote: await this.#takeRemote(conversation),
    };
    const served = new ServedTurn(
      turn,
      conversation,
      this.#pick('prefill'),
      this.#pick('decode'),
      acceptedMs,
    );
    const outputs =
      this.#mode === 'monolithic'
        ? monolithicTurn(served.decode, turn, served.trace)
        : disaggregatedTurn(served.prefill, served.decode, turn, served.trace);
    this.#active++;
    try {
      yield* this.#stream(request, served, outputs);
    } finally {
      this.#active--;
      served.forgetTransfers();
    }
  }

  async *#stream(
    request: GenerateRequest,
    served: ServedTurn,
    outputs: AsyncIterable<TimedOutput>,
  ): AsyncGenerator<GeneratedToken> {
    const streamText = this.#text.tokenizer.streamDecoder();
    for await (const { output, atMs } of outputs) {
      request.signal?.throwIfAborted();
      for (const [i, token] of output.tokens.entries()) {
        const finish = i === output.tokens.length - 1 ? output.finish : null;
        const text = streamText.push(token.tokenId) + (finish ? streamText.end() : '');
        const index = served.add(token.tokenId, text, atMs);
        const final = finish ? this.#finish(request, served, finish.reason, atMs) : null;
        const { tokenId, logitsDigest, logits } = token;
        yield { tokenId, text, index, logitsDigest, logits, final };
      }
    }
  }

  /** The conversation moves on, and the turn becomes its result. */
  #finish(request: GenerateRequest, served: ServedTurn, reason: FinishReason, atMs: number): TurnResult {
    const { conversation, turn, trace, decode } = served;
    conversation.turns++;
    conversation.historyIds = [...turn.promptTokenIds, ...served.outputTokenIds];
    const answer = { role: 'assistant', content: this.#prompts.answerText(served.text) };
    conversation.messages = request.messages ? [...request.messages, answer] : null;
    conversation.kv = trace.decodeParams && {
      params: trace.decodeParams,
      decodeEngineId: decode.engineId,
      atMs,
    };
    return served.result(reason, this.#options.link !== null);
  }

  async endConversation(conversationId: string): Promise<void> {
    const conversation = this.#conversations.forget(conversationId);
    const taken = conversation && this.#conversations.takeKv(conversation);
    if (taken) await this.#release(taken.kv);
  }

  async stats(): Promise<readonly EngineStats[]> {
    return Promise.all(this.#engines().map((engine) => engine.call((api) => api.stats())));
  }

  async checkIntegrity(): Promise<void> {
    await Promise.all(this.#engines().map((engine) => engine.call((api) => api.checkIntegrity())));
  }

  onSpan(listener: (span: Span) => void): () => void {
    this.#spanListeners.add(listener);
    return () => this.#spanListeners.delete(listener);
  }

  async close(): Promise<void> {
    await Promise.all(this.#engines().map((engine) => engine.shutdown()));
  }

  /** For checks that look under the hood. */
  engine(role: 'prefill' | 'decode'): EngineHandle {
    return this.#pick(role);
  }

  #engines(): readonly EngineHandle[] {
    return [...this.#prefill, ...this.#decode];
  }

  #core(engine: EngineHandle, mode: Mode): EngineCoreConfig {
    return engineStart(this.#options, engine.role, mode).core;
  }

  /** Independent round robin, as in vLLM's proxy. */
  #pick(role: 'prefill' | 'decode'): EngineHandle {
    const engines = role === 'prefill' ? this.#prefill : this.#decode;
    return engines[this.#next[role]++ % engines.length]!;
  }

  async #takeRemote(conversation: Conversation): Promise<Turn['remote']> {
    const taken = this.#conversations.takeKv(conversation);
    if (!taken) return null;
    if (taken.fresh && this.#mode === 'bidirectional') return taken.kv.params;
    await this.#release(taken.kv);
    return null;
  }

  async #release(kv: NonNullable<Conversation['kv']>): Promise<void> {
    const holder = this.#decode.find((engine) => engine.engineId === kv.decodeEngineId);
    const requestId = kv.params.remote_request_id;
    if (holder && !holder.dead && requestId) await holder.call((api) => api.releaseHolds([requestId]));
  }

  #emit(span: Span): void {
    for (const listener of this.#spanListeners) listener(span);
  }
}

/** A port from every engine to every other; a death is told to all. */
async function connectAll(engines: readonly EngineHandle[]): Promise<void> {
  for (const [i, a] of engines.entries()) {
    for (const b of engines.slice(i + 1)) {
      const { port1, port2 } = new MessageChannel();
      await Promise.all([
        a.call((api) => api.addPeer(b.address, transfer(port1, [port1]))),
        b.call((api) => api.addPeer(a.address, transfer(port2, [port2]))),
      ]);
    }
    a.onDeath(() => {
      for (const other of engines) {
        if (other !== a && !other.dead) other.call((api) => api.peerDied(a.engineId)).catch(() => {});
      }
    });
  }
}

function describe(
  options: ClusterOptions,
  engines: readonly EngineHandle[],
  text: TextModel,
  startMs: number,
): ClusterInfo {
  const { architecture } = text;
  const first = engines[0]!.started;
  return {
    adapter: first.adapter,
    model: {
      name: architecture.name,
      parameters: first.parameters,
      vocabSize: architecture.vocabSize,
      maxModelLen: Math.min(options.maxModelLen, architecture.maxModelLen),
      kvBytesPerToken: kvBlockBytes(architecture, 1, options.kvDtype),
      blockBytes: first.blockBytes,
      eosTokenIds: architecture.eosTokenIds,
    },
    engines: engines.map(({ engineId, role, started }) => ({
      engineId,
      role,
      numBlocks: options[role].numBlocks,
      memory: started.memory,
      loadMs: started.loadMs,
      compileMs: started.compileMs,
      pipelines: started.pipelines,
    })),
    startMs,
    link: options.link,
  };
}
