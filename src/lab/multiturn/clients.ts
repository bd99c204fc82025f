/**
 * The clients of vLLM's multi-turn benchmark, by its rules. Each client has one request in progress at a time. It picks the
 * next turn from its share of the active conversations (a new one first, then round-robin or at random), and starts another
 * conversation when one is over. The target measures; this file does not.
 */

import { RequestError } from '../../errors.ts';
import type { MeasuredRequest } from '../../measure/summaries/bench-summary.ts';
import { sumOf } from '../../sum.ts';
import { Random } from '../../workload/random.ts';
import type { BenchConversation, BenchTurn, Message } from '../../workload/types.ts';
import type { Auditor } from '../audit.ts';
import { ownSignal } from '../own-signal.ts';
import { measuredRequest } from './measured-request.ts';
import type { AnsweredTurn, BenchTarget, TurnToSend } from './target.ts';

export interface ClientOptions {
  round: number;
  numClients: number;
  /** Active conversations of all clients together. */
  maxActive: number;
  /** Requests of all clients together; null: no limit. */
  maxRequests: number | null;
  /** Messages of a conversation, answers included; null: no limit. */
  maxTurns: number | null;
  /** Requests per second of each client; 0: no pauses. */
  requestRate: number;
  pick: 'round_robin' | 'random';
  warmupStep: boolean;
  earlyStop: boolean;
  /** Tokens per answer. 0: from the workload; below 0: no limit. */
  limitTokens: { min: number; max: number };
  seed: number;
  /** Audits a sample of turns; null: none. */
  auditor: Auditor | null;
  signal: AbortSignal;
  /** Milliseconds. */
  now(): number;
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  onRequest(request: MeasuredRequest): void;
  /** Called after the warm-up step, when counting begins. Not called without one. */
  onWarmedUp?(): Promise<void>;
  /** Called for each failed request, so that a round that is cut short can report it. */
  onFailure?(message: string): void;
}

export interface ServedRound {
  requests: MeasuredRequest[];
  /** Failed requests by message. */
  errors: Map<string, number>;
  /** First request to last token. */
  runtimeMs: number;
}

/** The runtime of a round that was cut short: until its last answer, milliseconds. */
export const runtimeOf = (requests: readonly MeasuredRequest[]): number =>
  requests.reduce((most, { sample }) => Math.max(most, sample.start_ms + sample.latency_ms), 0);

/** Failed requests of all rounds by message. */
export function mergeErrors(rounds: readonly { errors: ReadonlyMap<string, number> }[]): Map<string, number> {
  const all = new Map<string, number>();
  for (const { errors } of rounds) for (const [message, count] of errors) countError(all, message, count);
  return all;
}

export function countError(errors: Map<string, number>, message: string, count = 1): void {
  errors.set(message, (errors.get(message) ?? 0) + count);
}

/** A conversation in progress. */
interface Open {
  conversation: BenchConversation;
  /** Index of the next turn. */
  next: number;
  /** A request failed: it is dropped, as in vLLM. */
  dropped: boolean;
  /** Tokens of the prompts and answers so far. */
  tokens: number;
  tokenIds: readonly number[];
  messages: readonly Message[];
}

/** Counts failed requests and continues. Rejects with the signal's reason, or with the error that ended the benchmark. */
export async function serveConversations(
  target: BenchTarget,
  conversations: readonly BenchConversation[],
  options: ClientOptions,
): Promise<ServedRound> {
  const open = conversations.map((conversation) => ({
    conversation,
    next: 0,
    dropped: false,
    tokens: 0,
    tokenIds: [],
    messages: [],
  }));
  const round = new Round(target, options);
  if (options.warmupStep) {
    const warmed = new Round(target, {
      ...options,
      requestRate: 0,
      maxRequests: null,
      earlyStop: false,
      auditor: null,
      onRequest: () => {},
    });
    await warmed.run(open, { turns: 1, maxActive: options.numClients });
    // Warm-up turns are not measured, but their failures are reported, because their conversations are dropped.
    for (const [message, count] of warmed.errors) countError(round.errors, message, count);
    await options.onWarmedUp?.();
  }
  const left = open.filter((each) => !each.dropped && each.next < turnsOf(each, options));
  await round.run(left, { turns: null, maxActive: options.maxActive });
  for (const { conversation } of open) await target.endConversation(conversation.id);
  return { requests: round.requests, errors: round.errors, runtimeMs: round.runtimeMs };
}

/** Counted requests of a round, if none fails and no client stops early. */
export function requestsOf(
  conversations: readonly BenchConversation[],
  {
    maxRequests,
    maxTurns,
    numClients,
    warmupStep,
  }: Pick<ClientOptions, 'maxRequests' | 'maxTurns' | 'numClients' | 'warmupStep'>,
): number {
  const warmed = warmupStep ? 1 : 0;
  const turns = sumOf(conversations, (conversation) => turnsOf({ conversation }, { maxTurns }) - warmed);
  return maxRequests === null ? turns : Math.min(turns, Math.floor(maxRequests / numClients) * numClients);
}

/** Turns of the conversation that are served; a turn is two messages. */
export const turnsOf = (
  { conversation }: Pick<Open, 'conversation'>,
  { maxTurns }: Pick<ClientOptions, 'maxTurns'>,
): number =>
  maxTurns === null
    ? conversation.turns.length
    : Math.min(conversation.turns.length, Math.ceil(maxTurns / 2));

class Round {
  readonly requests: MeasuredRequest[] = [];
  readonly errors = new Map<string, number>();
  readonly #target: BenchTarget;
  readonly #options: ClientOptions;
  #beganMs: number | null = null;
  #endedMs = 0;
  #stop = false;

  constructor(target: BenchTarget, options: ClientOptions) {
    this.#target = target;
    this.#options = options;
  }

  get runtimeMs(): number {
    return this.#beganMs === null ? 0 : this.#endedMs - this.#beganMs;
  }

  async run(waiting: readonly Open[], limits: { turns: number | null; maxActive: number }): Promise<void> {
    const { numClients, signal, maxRequests } = this.#options;
    const queue = [...waiting];
    const failed = new AbortController();
    const either = AbortSignal.any([signal, failed.signal]);
    const share = {
      active: Math.floor(limits.maxActive / numClients),
      requests: maxRequests === null ? null : Math.floor(maxRequests / numClients),
      turns: limits.turns,
    };
    const clients = Array.from({ length: numClients }, async (_, client) => {
      try {
        await this.#client(client, queue, share, ownSignal(either));
      } catch (error) {
        failed.abort(error);
        throw error;
      }
    });
    await Promise.allSettled(clients);
    signal.throwIfAborted();
    if (failed.signal.aborted) throw failed.signal.reason;
  }

  async #client(
    client: number,
    queue: Open[],
    share: { active: number; requests: number | null; turns: number | null },
    signal: AbortSignal,
  ): Promise<void> {
    const { earlyStop, pick, requestRate, seed, sleep } = this.#options;
    // Each client has its own generator, as in vLLM, where each is a process seeded with seed + id + 1.
    const random = new Random(seed + client + 1);
    const active: Open[] = [];
    for (let sent = 0; share.requests === null || sent < share.requests; sent++) {
      signal.throwIfAborted();
      if (this.#stop) return;
      while (active.length < share.active && queue.length > 0) active.push(queue.shift()!);
      const outOfWork =
        active.length === 0 || (earlyStop && queue.length === 0 && active.length < share.active);
      if (outOfWork) {
        if (earlyStop) this.#stop = true;
        return;
      }
      const index = pick === 'random' ? random.int(0, active.length - 1) : active.length - 1;
      const [open] = active.splice(index, 1);
      await this.#serve(open!, client, signal);
      const hasEnded =
        open!.next >= Math.min(turnsOf(open!, this.#options), share.turns ?? Number.POSITIVE_INFINITY);
      if (!open!.dropped && !hasEnded) active.unshift(open!);
      else if (share.turns === null) await this.#target.endConversation(open!.conversation.id);
      if (requestRate > 0) await sleep(random.exponential(1000 / requestRate), signal);
    }
  }

  async #serve(open: Open, client: number, signal: AbortSignal): Promise<void> {
    const { auditor, now, onRequest, onFailure, round } = this.#options;
    const turn = open.conversation.turns[open.next]!;
    const prompt = promptOf(open, turn);
    const { id } = open.conversation;
    const beganMs = now();
    this.#beganMs ??= beganMs;
    open.next++;
    let answered: AnsweredTurn;
    try {
      const limits = this.#limits(turn);
      answered = await this.#target.send({
        conversationId: id,
        turn: open.next,
        prompt,
        ...limits,
        auditor,
        signal,
      });
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      countError(this.errors, error.message);
      onFailure?.(error.message);
      open.dropped = true;
      return;
    } finally {
      this.#endedMs = Math.max(this.#endedMs, now());
    }
    remember(open, prompt, answered);
    const inputTokens = open.tokens + turn.inputTokens;
    open.tokens = inputTokens + answered.outputTokens;
    const sent = { round, conversationId: id, turn: open.next, client, startMs: beganMs - this.#beganMs };
    const request = measuredRequest({ ...sent, inputTokens }, answered);
    this.requests.push(request);
    onRequest(request);
  }

  #limits({ outputTokens }: BenchTurn): Pick<TurnToSend, 'minTokens' | 'maxTokens'> {
    const { limitTokens } = this.#options;
    const limit = (tokens: number): number | null => (tokens > 0 ? tokens : tokens < 0 ? null : outputTokens);
    return { minTokens: limit(limitTokens.min), maxTokens: limit(limitTokens.max) };
  }
}

function promptOf(open: Open, { content }: BenchTurn): TurnToSend['prompt'] {
  return content.kind === 'tokens'
    ? { kind: 'tokens', tokenIds: [...open.tokenIds, ...content.tokenIds] }
    : { kind: 'text', messages: [...open.messages, ...content.messages] };
}

/** Adds the actual answer to the history. */
function remember(open: Open, prompt: TurnToSend['prompt'], { answer }: AnsweredTurn): void {
  if (prompt.kind === 'tokens' && answer.kind === 'tokens')
    open.tokenIds = [...prompt.tokenIds, ...answer.tokenIds];
  if (prompt.kind === 'text' && answer.kind === 'text')
    open.messages = [...prompt.messages, { role: 'assistant', content: answer.text }];
}
