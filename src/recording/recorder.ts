/**
 * A cluster's life as session events: what the page draws and a recording keeps. Ask through generate() here, so that
 * questions and tokens are told too; poll() tells of the blocks. Changes nothing in the cluster.
 */
import type { Clock } from '../engine/types.ts';
import { messageOf } from '../errors.ts';
import type { ClusterNotice } from '../fleet/engine-watch.ts';
import type { Cluster } from '../fleet/types.ts';
import type { EngineEvent } from '../host/engine-api.ts';
import { turnReport } from '../router/turn-report.ts';
import type { GeneratedToken, GenerateRequest } from '../router/turn-types.ts';
import { BlockViews } from './block-views.ts';
import { type BlockView, type Direction, emptyBlock, type Machine, type SessionEvent } from './events.ts';

/** What a turn is shown with, beside its request. */
export interface Asked {
  question: string;
  /** The history was changed. */
  edited: boolean;
}

export class Recorder {
  readonly #cluster: Cluster;
  readonly #emit: (event: SessionEvent) => void;
  readonly #clock: Clock;
  readonly #originMs: number;
  readonly #views: BlockViews;
  /** What the last events said of each block. */
  readonly #told = { prefill: new Map<number, string>(), decode: new Map<number, string>() };
  readonly #toldOnce = new Map<string, string>();
  readonly #asked = new Map<string, Asked>();
  readonly #turnOf = new Map<string, string>();
  readonly #unsubscribe: (() => void)[];
  #polling: Promise<void> | null = null;
  #pollAgain = false;

  /** originMs: the shared clock's time that becomes 0. */
  constructor(cluster: Cluster, emit: (event: SessionEvent) => void, clock: Clock, originMs: number) {
    this.#cluster = cluster;
    this.#emit = emit;
    this.#clock = clock;
    this.#originMs = originMs;
    this.#views = new BlockViews(cluster.settings.blockSize, (ids) => cluster.decode(ids));
    this.#unsubscribe = [
      cluster.onNotice((notice) => this.#hear(notice)),
      cluster.onWaiting((_, reason) =>
        this.#emit({ kind: 'note', atMs: this.#now(), level: 'info', message: reason }),
      ),
    ];
    this.machine();
    for (const role of ['prefill', 'decode'] as const) {
      this.#emit({ kind: 'engine', atMs: this.#now(), role, alive: true, message: null });
    }
  }

  detach(): void {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
  }

  /** Tells what the cluster runs on; again after a change of its settings. */
  machine(): void {
    const { adapter, model, engines, startMs, link } = this.#cluster.info;
    const { blockSize } = this.#cluster.settings;
    const { name, backend, software } = adapter;
    const { parameters, maxModelLen, kvBytesPerToken, blockBytes, vocabSize } = model;
    const machine: Machine = {
      adapter: { name, backend, software },
      model: { name: model.name, parameters, maxModelLen, kvBytesPerToken, blockBytes, vocabSize },
      blockSize,
      engines: engines.map(({ role, engineId, numBlocks, loadMs, compileMs, memory }) => {
        return { role, engineId, numBlocks, loadMs, compileMs, memory: { ...memory } };
      }),
      startMs,
      link: link && { name: link.name, bytesPerSecond: link.bytesPerSecond, latencyMs: link.latencyMs },
    };
    this.#emit({ kind: 'machine', atMs: this.#now(), machine });
  }

  /** As the cluster's generate(), told as it happens. A failed turn is told and rethrown. */
  async *generate(request: GenerateRequest, asked: Asked): AsyncGenerator<GeneratedToken> {
    const conversation = request.conversationId;
    if (conversation !== null) this.#asked.set(conversation, asked);
    const digests: string[] = [];
    try {
      for await (const token of this.#cluster.generate(request)) {
        digests.push(token.logitsDigest);
        this.#tellToken(conversation, token);
        const { final } = token;
        const turnId = conversation === null ? undefined : this.#turnOf.get(conversation);
        if (final && turnId !== undefined) {
          const text = request.messages ? final.text : null;
          const result = turnReport(final.conversationId, final.turn, final, digests, text);
          this.#emit({ kind: 'turn_ended', atMs: this.#now(), turnId, result });
          void this.poll();
        }
        yield token;
      }
    } catch (error) {
      const turnId = conversation === null ? undefined : this.#turnOf.get(conversation);
      const message = messageOf(error);
      if (turnId !== undefined) this.#emit({ kind: 'turn_failed', atMs: this.#now(), turnId, message });
      throw error;
    }
  }

  async endConversation(conversation: string): Promise<void> {
    await this.#cluster.endConversation(conversation);
    this.#views.conversationEnded(conversation);
    this.#asked.delete(conversation);
    this.#turnOf.delete(conversation);
    this.#emit({ kind: 'conversation_ended', atMs: this.#now(), conversation });
  }

  /** Tells which blocks changed. Calls while one is under way share the next. Never rejects. */
  poll(): Promise<void> {
    if (this.#polling) {
      this.#pollAgain = true;
      return this.#polling;
    }
    this.#polling = this.#look().finally(() => {
      this.#polling = null;
    });
    return this.#polling;
  }

  async #look(): Promise<void> {
    do {
      this.#pollAgain = false;
      try {
        for (const snapshot of await this.#cluster.snapshot()) this.#tellSnapshot(snapshot);
      } catch {
        // An engine ended meanwhile: that is told by its notice.
      }
    } while (this.#pollAgain);
  }

  #tellSnapshot({ role, blocks, stats }: Awaited<ReturnType<Cluster['snapshot']>>[number]): void {
    const atMs = this.#now();
    const changed: BlockView[] = [];
    const told = this.#told[role];
    const seen = new Set<number>();
    const tell = (view: BlockView) => {
      const text = JSON.stringify(view);
      if (told.get(view.id) === text) return;
      told.set(view.id, text);
      changed.push(view);
    };
    for (const fact of blocks.facts) {
      seen.add(fact.id);
      tell(this.#views.view(fact, this.#originMs));
    }
    // The policy was built anew: what it knew of its blocks is gone.
    for (const id of told.keys()) if (!seen.has(id)) tell(emptyBlock(id));
    const { numBlocks, slab } = blocks;
    if (changed.length > 0 || this.#isNews(`${role} size`, numBlocks)) {
      this.#emit({ kind: 'blocks', atMs, role, numBlocks, changed });
    }
    const { running, waiting, waitingForRemote, heldRequests, freeBlocks, usedBlocks, preemptions } = stats;
    const { queries, hits } = stats.prefixCache;
    const counts = { running, waiting, waitingForRemote, heldRequests, freeBlocks, usedBlocks, preemptions };
    const brief = { ...counts, prefixCache: { queries, hits } };
    if (this.#isNews(`${role} stats`, brief)) this.#emit({ kind: 'stats', atMs, role, stats: brief });
    const direction: Direction = role === 'prefill' ? 'p_to_d' : 'd_to_p';
    if (slab.slots > 0 && this.#isNews(`${role} slab`, slab)) {
      this.#emit({ kind: 'slab', atMs, direction, ...slab });
    }
  }

  #isNews(what: string, value: unknown): boolean {
    const text = JSON.stringify(value);
    if (this.#toldOnce.get(what) === text) return false;
    this.#toldOnce.set(what, text);
    return true;
  }

  #hear(notice: ClusterNotice): void {
    switch (notice.kind) {
      case 'turn':
        this.#turn(notice);
        break;
      case 'alive':
        this.#told[notice.role].clear();
        this.#emit({ kind: 'engine', atMs: this.#now(), role: notice.role, alive: true, message: null });
        break;
      case 'dead': {
        const { role, message } = notice;
        this.#emit({ kind: 'engine', atMs: this.#now(), role, alive: false, message });
        break;
      }
      case 'engine':
        this.#engine(notice.role, notice.event);
    }
  }

  #turn({ turnId, conversationId, turn, promptTokenIds, atMs }: ClusterNotice & { kind: 'turn' }): void {
    this.#views.turnStarted(turnId, conversationId, promptTokenIds);
    // Measurements ask the cluster itself: their blocks are shown, their turns are no part of what is said.
    const asked = this.#asked.get(conversationId);
    if (!asked) return;
    this.#turnOf.set(conversationId, turnId);
    const { question, edited } = asked;
    const { mode } = this.#cluster;
    this.#emit({
      kind: 'turn_started',
      atMs: atMs - this.#originMs,
      turnId,
      conversation: conversationId,
      turn,
      mode,
      question,
      edited,
    });
    void this.poll();
  }

  #tellToken(conversation: string | null, token: GeneratedToken): void {
    const turnId = conversation === null ? undefined : this.#turnOf.get(conversation);
    if (turnId === undefined) return;
    this.#views.token(turnId, token.tokenId);
    const atMs = token.atMs - this.#originMs;
    this.#emit({ kind: 'token', atMs, turnId, text: token.text, tokens: token.index + 1 });
    if (token.index === 0) void this.poll();
  }

  #engine(role: 'prefill' | 'decode', event: EngineEvent): void {
    // P reads from D, D reads from P.
    const direction: Direction = role === 'prefill' ? 'd_to_p' : 'p_to_d';
    switch (event.kind) {
      case 'spans': {
        this.#emit({
          kind: 'spans',
          atMs: this.#now(),
          spans: event.spans.map(({ startMs, endMs, requestIds, args, ...span }) => ({
            ...span,
            startMs: startMs - this.#originMs,
            endMs: endMs - this.#originMs,
            args: { ...args },
            ...(requestIds ? { requestIds: [...requestIds] } : {}),
          })),
        });
        break;
      }
      case 'pull': {
        const { requestId, pairs, bytes, streamed, atMs } = event;
        this.#emit({
          kind: 'transfer_started',
          atMs: atMs - this.#originMs,
          requestId,
          direction,
          pairs,
          bytes,
          ...(streamed ? { streamed } : {}),
        });
        void this.poll();
        break;
      }
      case 'chunk': {
        const { requestId, pairs, atMs } = event;
        this.#emit({ kind: 'transfer_chunk', atMs: atMs - this.#originMs, requestId, direction, pairs });
        break;
      }
      case 'transfer': {
        const { outcome, message, bytes, blocks, wallMs, movingMs, stages } = event.result;
        this.#emit({
          kind: 'transfer_ended',
          atMs: event.atMs - this.#originMs,
          requestId: event.requestId,
          direction,
          outcome,
          message,
          bytes,
          blocks,
          ms: wallMs,
          stagesMs: { ...stages },
          ...(movingMs === null ? {} : { movingMs }),
          throttled: this.#cluster.info.link !== null,
        });
        void this.poll();
        break;
      }
    }
  }

  #now(): number {
    return this.#clock.now() - this.#originMs;
  }
}
