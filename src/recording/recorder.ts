/**
 * A cluster's life as session events: what the page draws and a recording keeps. Ask through generate() here, so that
 * questions and tokens are told too; poll() tells of the blocks (block-polls.ts). Changes nothing in the cluster.
 */
import { STORE_ADDRESS } from '../config/connectors.ts';
import { written } from '../config/token-ids.ts';
import type { Clock } from '../engine/types.ts';
import { messageOf } from '../errors.ts';
import type { ClusterNotice } from '../fleet/notices.ts';
import { whatIsLost } from '../fleet/scale-report.ts';
import type { Cluster } from '../fleet/types.ts';
import type { Span, TurnSide } from '../measure/spans.ts';
import { turnReport } from '../router/turn-report.ts';
import type { GeneratedToken, GenerateRequest } from '../router/turn-types.ts';
import { BlockPolls } from './block-polls.ts';
import { BlockViews } from './block-views.ts';
import type { ResumedTurn, SessionEvent } from './events.ts';
import { machineOf } from './machine.ts';
import { transferNews } from './transfer-news.ts';

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
  readonly #blocks: BlockPolls;
  readonly #asked = new Map<string, Asked>();
  readonly #turnOf = new Map<string, { turnId: string; turn: number }>();
  /** Of each conversation the last turn that ended well. */
  readonly #ended = new Map<string, ResumedTurn>();
  /** Conversations whose last turn runs once more. */
  readonly #retold = new Set<string>();
  /** Requests whose KV is on its way, as was told: that they wait need not be told too. */
  readonly #pulls = new Set<string>();
  readonly #unsubscribe: (() => void)[];
  /** Not told yet. */
  #spans: Span[] = [];

  /** originMs: the shared clock's time that becomes 0. */
  constructor(cluster: Cluster, emit: (event: SessionEvent) => void, clock: Clock, originMs: number) {
    this.#cluster = cluster;
    this.#emit = emit;
    this.#clock = clock;
    this.#originMs = originMs;
    this.#views = new BlockViews(cluster.settings.blockSize, (ids) => cluster.decode(ids));
    this.#blocks = new BlockPolls(cluster, emit, clock, originMs, this.#views);
    this.#unsubscribe = [
      cluster.onNotice((notice) => this.#hear(notice)),
      cluster.onSpan((span) => this.#span(span)),
      cluster.onWaiting((requestId, reason) => {
        if (!this.#pulls.has(requestId)) this.#note('info', reason);
      }),
    ];
    this.machine();
    for (const { engineId, role } of cluster.info.engines) {
      this.#emit({ kind: 'engine', atMs: this.#now(), engineId, role, alive: true, message: null });
    }
  }

  detach(): void {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    this.#tellSpans();
  }

  /** Tells what the cluster runs on; again after a change of its settings. */
  machine(): void {
    this.#emit({ kind: 'machine', atMs: this.#now(), machine: machineOf(this.#cluster) });
  }

  /** As the cluster's generate(), told as it happens. A failure is rethrown, and told of a turn that had begun. */
  async *generate(request: GenerateRequest, asked: Asked): AsyncGenerator<GeneratedToken> {
    const conversation = request.conversationId;
    const turnOf = () => (conversation === null ? undefined : this.#turnOf.get(conversation));
    const before = turnOf();
    if (conversation !== null) this.#asked.set(conversation, asked);
    const digests: string[] = [];
    try {
      for await (const token of this.#cluster.generate(request)) {
        digests.push(token.logitsDigest);
        this.#tellToken(conversation, token);
        const { final } = token;
        const of = turnOf();
        if (final && of) {
          const text = request.messages ? final.text : null;
          const result = turnReport(final.conversationId, of.turn, final, digests, text);
          this.#emit({ kind: 'turn_ended', atMs: this.#now(), turnId: of.turnId, result });
          const { mode } = this.#cluster;
          this.#ended.set(final.conversationId, { ...of, mode, question: asked.question, result });
          void this.poll();
        }
        yield token;
      }
    } catch (error) {
      const of = turnOf();
      // Refused before it began, it is no turn: the one before is what it was.
      if (of && of !== before) {
        this.#views.turnFailed(of.turnId);
        this.#emit({ kind: 'turn_failed', atMs: this.#now(), turnId: of.turnId, message: messageOf(error) });
      }
      throw error;
    }
  }

  /** A conversation's last turn once more, for its KV alone: engines that were emptied have it again. Rejects as again(). */
  async retell(conversation: string, request: GenerateRequest): Promise<void> {
    for await (const _ of this.again(conversation, request));
  }

  /**
   * A conversation's last turn once more. Its blocks and copies are told, and no turn: nothing new was said. Throws as the
   * cluster's generate() does.
   */
  async *again(conversation: string, request: GenerateRequest): AsyncGenerator<GeneratedToken> {
    const asked = this.#asked.get(conversation);
    this.#asked.delete(conversation);
    this.#retold.add(conversation);
    try {
      for await (const token of this.#cluster.generate({ ...request, conversationId: conversation })) {
        this.#views.token(this.#turnOf.get(conversation)!.turnId, token.tokenId);
        yield token;
      }
      await this.poll();
    } finally {
      this.#retold.delete(conversation);
      if (asked) this.#asked.set(conversation, asked);
    }
  }

  /** The conversation's last turn, for resume(); null: none ended well. */
  lastTurn(conversation: string): ResumedTurn | null {
    return this.#ended.get(conversation) ?? null;
  }

  /** Goes on with a conversation of before, whose tokens so far are these: what is told of blocks knows its turns. */
  resume(conversation: string, tokenIds: readonly number[], turns: readonly ResumedTurn[]): void {
    const bounds = turns.map(({ result: { prompt_tokens: question, output_tokens } }) => {
      return { question, answer: question + output_tokens };
    });
    this.#views.resume(conversation, tokenIds, bounds);
    const atMs = this.#now();
    this.#emit({ kind: 'conversation_resumed', atMs, conversation, turns: [...turns] });
    void this.poll();
  }

  async endConversation(conversation: string): Promise<void> {
    await this.#cluster.endConversation(conversation);
    this.#views.conversationEnded(conversation);
    this.#asked.delete(conversation);
    this.#turnOf.delete(conversation);
    this.#ended.delete(conversation);
    this.#emit({ kind: 'conversation_ended', atMs: this.#now(), conversation });
  }

  /** Tells which blocks changed. Calls while one is under way share the next. Never rejects. */
  poll(): Promise<void> {
    return this.#blocks.poll();
  }

  #hear(notice: ClusterNotice): void {
    switch (notice.kind) {
      case 'turn':
        this.#turn(notice);
        break;
      case 'request':
        this.#views.requestStarted(notice.requestId, notice);
        this.#blocks.pollSoon();
        break;
      case 'moves': {
        // What it has then is what the last turn left.
        const turnId = this.#turnOf.get(notice.conversationId)?.turnId ?? '';
        this.#views.requestStarted(notice.requestId, { turnId, side: 'decode' });
        break;
      }
      case 'alive': {
        const { engineId, role } = notice;
        this.#blocks.startedAnew(engineId);
        this.#emit({ kind: 'engine', atMs: this.#now(), engineId, role, alive: true, message: null });
        break;
      }
      case 'dead': {
        const { engineId, role, message } = notice;
        this.#emit({ kind: 'engine', atMs: this.#now(), engineId, role, alive: false, message });
        break;
      }
      case 'store':
        this.#note('warning', notice.message);
        break;
      case 'joined':
        this.#note('info', `${notice.engineId} has joined: it gets turns from now on.`);
        break;
      case 'leaving':
        this.#note('info', `${notice.engineId} is leaving: it gets no more turns.`);
        break;
      case 'left': {
        const { engineId, role, migrated, lost } = notice;
        const message = `${engineId} left the fleet`;
        this.#emit({ kind: 'engine', atMs: this.#now(), engineId, role, alive: false, message });
        const what = [
          migrated.holds > 0 && `KV of ${migrated.tokens} tokens went to another engine`,
          whatIsLost(lost),
        ];
        this.#note('info', `${[message, ...what.filter(Boolean)].join('; ')}.`);
        break;
      }
      case 'engine':
        this.#engine(notice);
    }
  }

  /** Turns are counted here: the cluster's count begins anew when its engines are set. */
  #turn({ turnId, conversationId, promptTokenIds, atMs }: ClusterNotice & { kind: 'turn' }): void {
    const again = this.#retold.has(conversationId);
    const told = this.#views.turnStarted(turnId, conversationId, written(promptTokenIds), again);
    const { turn, differsAt } = told;
    if (again) this.#turnOf.set(conversationId, { turnId, turn });
    // Measurements ask the cluster itself: their blocks are shown, their turns are no part of what is said.
    const asked = this.#asked.get(conversationId);
    if (!asked) return;
    this.#turnOf.set(conversationId, { turnId, turn });
    const { question, edited } = asked;
    this.#emit({
      kind: 'turn_started',
      atMs: atMs - this.#originMs,
      turnId,
      conversation: conversationId,
      turn,
      mode: this.#cluster.mode,
      question,
      edited,
      ...(differsAt === null ? {} : { differsAt }),
    });
    void this.poll();
  }

  #tellToken(conversation: string | null, token: GeneratedToken): void {
    const of = conversation === null ? undefined : this.#turnOf.get(conversation);
    if (!of) return;
    const { turnId } = of;
    this.#views.token(turnId, token.tokenId);
    const atMs = token.atMs - this.#originMs;
    this.#emit({ kind: 'token', atMs, turnId, text: token.text, tokens: token.index + 1 });
    if (token.index === 0) void this.poll();
  }

  /** Told together with those that come in the same message. A turn's own are told as its beginning and end. */
  #span(span: Span): void {
    if (span.name === 'ttft' || span.name === 'turn') return;
    if (this.#spans.push(span) === 1) queueMicrotask(() => this.#tellSpans());
  }

  #tellSpans(): void {
    const spans = this.#spans;
    this.#spans = [];
    if (spans.length === 0) return;
    this.#emit({
      kind: 'spans',
      atMs: this.#now(),
      spans: spans.map(({ startMs, endMs, requestIds, turns, args, ...span }) => ({
        ...span,
        startMs: startMs - this.#originMs,
        endMs: endMs - this.#originMs,
        ...(requestIds ? { requestIds: [...requestIds] } : {}),
        turns: [...turns],
        args: { ...args },
      })),
    });
  }

  #engine({ engineId, role, event }: ClusterNotice & { kind: 'engine' }): void {
    const remote = 'remoteEngineId' in event ? event.remoteEngineId : engineId;
    const told = transferNews(engineId, event, {
      originMs: this.#originMs,
      side: 'requestId' in event ? this.#sideOf(event.requestId, role) : role,
      throttled: this.#throttled(remote),
    });
    for (const one of told) {
      if (one.kind === 'transfer_started') this.#pulls.add(one.requestId);
      if (one.kind === 'transfer_ended') this.#pulls.delete(one.requestId);
      this.#emit(one);
    }
    if (told.some(({ kind }) => kind !== 'transfer_chunk')) void this.poll();
  }

  /**
   * A modelled link lies before every engine, and before the store where that is not this machine's memory; or links lie
   * between some engines, as for turns' reports.
   */
  #throttled(holder: string): boolean {
    const { info, settings } = this.#cluster;
    if (holder === STORE_ADDRESS.engineId) return info.link !== null && settings.store?.remote === true;
    return info.link !== null || (settings.fleet?.links.length ?? 0) > 0;
  }

  /** A request that is of no turn that is remembered counts as its engine's role says. */
  #sideOf(requestId: string, role: TurnSide): TurnSide {
    return this.#views.ownerOf(requestId)?.side ?? role;
  }

  #note(level: 'info' | 'warning', message: string): void {
    this.#emit({ kind: 'note', atMs: this.#now(), level, message });
  }

  #now(): number {
    return this.#clock.now() - this.#originMs;
  }
}
