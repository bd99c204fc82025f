/**
 * Turns a cluster's activity into session events, which the page draws and a recording keeps. Send requests through
 * generate() here, so that questions and tokens are reported too; poll() reports blocks (block-polls.ts). Does not change
 * the cluster.
 */
import { STORE_ADDRESS } from '../config/connectors.ts';
import { written } from '../config/token-ids.ts';
import type { Clock } from '../engine/types.ts';
import { messageOf } from '../errors.ts';
import type { ClusterNotice } from '../fleet/notices.ts';
import { whatIsLost } from '../fleet/scale-report.ts';
import type { Cluster } from '../fleet/types.ts';
import type { Span, TurnSide } from '../measure/spans/spans.ts';
import { turnReport } from '../router/turn-report.ts';
import type { GeneratedToken, GenerateRequest } from '../router/turn-types.ts';
import { BlockPolls } from './block-polls.ts';
import { BlockViews } from './block-views.ts';
import type { ResumedTurn, SessionEvent } from './events.ts';
import { machineOf } from './machine.ts';
import { transferNews } from './transfer-news.ts';

/** What is shown with a turn in addition to its request. */
export interface TurnQuestion {
  question: string;
  /** The history was edited before this turn. */
  edited: boolean;
}

export class Recorder {
  readonly #cluster: Cluster;
  readonly #emit: (event: SessionEvent) => void;
  readonly #clock: Clock;
  readonly #originMs: number;
  readonly #views: BlockViews;
  readonly #blocks: BlockPolls;
  readonly #questions = new Map<string, TurnQuestion>();
  readonly #turnOf = new Map<string, { turnId: string; turn: number }>();
  /** Each conversation's last turn that succeeded. */
  readonly #ended = new Map<string, ResumedTurn>();
  /** Conversations whose last turn is being run again. */
  readonly #restored = new Set<string>();
  /** Requests with a reported transfer. No note says that these wait. */
  readonly #pulls = new Set<string>();
  readonly #unsubscribe: (() => void)[];
  /** Spans not reported yet. */
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
    this.#emitSpans();
  }

  /** Reports what the cluster runs on. Call again after a change of its settings. */
  machine(): void {
    this.#emit({ kind: 'machine', atMs: this.#now(), machine: machineOf(this.#cluster) });
  }

  /** Like the cluster's generate(), with events as it runs. A failure is rethrown, and reported if the turn had begun. */
  async *generate(request: GenerateRequest, turnQuestion: TurnQuestion): AsyncGenerator<GeneratedToken> {
    const conversation = request.conversationId;
    const turnOf = () => (conversation === null ? undefined : this.#turnOf.get(conversation));
    const before = turnOf();
    if (conversation !== null) this.#questions.set(conversation, turnQuestion);
    const digests: string[] = [];
    try {
      for await (const token of this.#cluster.generate(request)) {
        digests.push(token.logitsDigest);
        this.#emitToken(conversation, token);
        const { final } = token;
        const of = turnOf();
        if (final && of) {
          const text = request.messages ? final.text : null;
          const result = turnReport(final.conversationId, of.turn, final, digests, text);
          this.#emit({ kind: 'turn_ended', atMs: this.#now(), turnId: of.turnId, result });
          const { mode } = this.#cluster;
          this.#ended.set(final.conversationId, { ...of, mode, question: turnQuestion.question, result });
          void this.poll();
        }
        yield token;
      }
    } catch (error) {
      const of = turnOf();
      // A request that was refused before it began is not a turn.
      if (of && of !== before) {
        this.#views.turnFailed(of.turnId);
        this.#emit({ kind: 'turn_failed', atMs: this.#now(), turnId: of.turnId, message: messageOf(error) });
      }
      throw error;
    }
  }

  /** Runs a conversation's last turn again only to restore its KV on emptied engines. Rejects like again(). */
  async restoreTurn(conversation: string, request: GenerateRequest): Promise<void> {
    for await (const _ of this.again(conversation, request));
  }

  /**
   * Runs a conversation's last turn again. Its blocks and copies are reported, but no turn, because nothing new is said.
   * Throws like the cluster's generate().
   */
  async *again(conversation: string, request: GenerateRequest): AsyncGenerator<GeneratedToken> {
    const turnQuestion = this.#questions.get(conversation);
    this.#questions.delete(conversation);
    this.#restored.add(conversation);
    try {
      for await (const token of this.#cluster.generate({ ...request, conversationId: conversation })) {
        this.#views.token(this.#turnOf.get(conversation)!.turnId, token.tokenId);
        yield token;
      }
      await this.poll();
    } finally {
      this.#restored.delete(conversation);
      if (turnQuestion) this.#questions.set(conversation, turnQuestion);
    }
  }

  /** The conversation's last turn that succeeded, for resume(); null: none. */
  lastTurn(conversation: string): ResumedTurn | null {
    return this.#ended.get(conversation) ?? null;
  }

  /** Continues an earlier conversation with these tokens so far, so that its blocks are reported with their turns. */
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
    this.#questions.delete(conversation);
    this.#turnOf.delete(conversation);
    this.#ended.delete(conversation);
    this.#emit({ kind: 'conversation_ended', atMs: this.#now(), conversation });
  }

  /** Reports blocks that changed. Calls during a poll share the next one. Never rejects. */
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
        // The moved blocks are those that the last turn left.
        const turnId = this.#turnOf.get(notice.conversationId)?.turnId ?? '';
        this.#views.requestStarted(notice.requestId, { turnId, side: 'decode' });
        break;
      }
      case 'alive': {
        const { engineId, role } = notice;
        this.#blocks.restarted(engineId);
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
        this.#note('info', `${notice.engineId} has joined and gets turns from now on.`);
        break;
      case 'leaving':
        this.#note('info', `${notice.engineId} is leaving and gets no more turns.`);
        break;
      case 'left': {
        const { engineId, role, migrated, lost } = notice;
        const message = `${engineId} left the fleet`;
        this.#emit({ kind: 'engine', atMs: this.#now(), engineId, role, alive: false, message });
        const details = [
          migrated.holds > 0 && `KV of ${migrated.tokens} tokens was moved to another engine`,
          whatIsLost(lost),
        ];
        this.#note('info', `${[message, ...details.filter(Boolean)].join('; ')}.`);
        break;
      }
      case 'engine':
        this.#engine(notice);
    }
  }

  /** Turns are counted here, because the cluster's count restarts when its engines are reconfigured. */
  #turn({ turnId, conversationId, promptTokenIds, atMs }: ClusterNotice & { kind: 'turn' }): void {
    const again = this.#restored.has(conversationId);
    const started = this.#views.turnStarted(turnId, conversationId, written(promptTokenIds), again);
    const { turn, differsAt } = started;
    if (again) this.#turnOf.set(conversationId, { turnId, turn });
    // Measurements send requests directly to the cluster: their blocks are shown, but not their turns.
    const turnQuestion = this.#questions.get(conversationId);
    if (!turnQuestion) return;
    this.#turnOf.set(conversationId, { turnId, turn });
    const { question, edited } = turnQuestion;
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

  #emitToken(conversation: string | null, token: GeneratedToken): void {
    const of = conversation === null ? undefined : this.#turnOf.get(conversation);
    if (!of) return;
    const { turnId } = of;
    this.#views.token(turnId, token.tokenId);
    const atMs = token.atMs - this.#originMs;
    this.#emit({ kind: 'token', atMs, turnId, text: token.text, tokens: token.index + 1 });
    if (token.index === 0) void this.poll();
  }

  /** Collects spans of the same message. A turn's own spans are skipped: they are reported as its start and end. */
  #span(span: Span): void {
    if (span.name === 'ttft' || span.name === 'turn') return;
    if (this.#spans.push(span) === 1) queueMicrotask(() => this.#emitSpans());
  }

  #emitSpans(): void {
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
    const events = transferNews(engineId, event, {
      originMs: this.#originMs,
      side: 'requestId' in event ? this.#sideOf(event.requestId, role) : role,
      throttled: this.#throttled(remote),
    });
    for (const item of events) {
      if (item.kind === 'transfer_started') this.#pulls.add(item.requestId);
      if (item.kind === 'transfer_ended') this.#pulls.delete(item.requestId);
      this.#emit(item);
    }
    if (events.some(({ kind }) => kind !== 'transfer_chunk')) void this.poll();
  }

  /**
   * Whether transfers from a holder use a modelled link. One link applies to all engines, and to a store that is not in this
   * machine's memory. A fleet may also have links between pairs of engines; as in turns' reports, these count for all.
   */
  #throttled(holder: string): boolean {
    const { info, settings } = this.#cluster;
    if (holder === STORE_ADDRESS.engineId) return info.link !== null && settings.store?.remote === true;
    return info.link !== null || (settings.fleet?.links.length ?? 0) > 0;
  }

  /** The side of a request; for a request of no remembered turn, its engine's role. */
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
