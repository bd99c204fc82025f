/** Serves conversations in one mode and records every turn. Uses only the Cluster interface, and prints nothing. */

import type { Mode } from '../config/modes.ts';
import type { SamplingParams } from '../engine/types.ts';
import { InternalError } from '../errors.ts';
import type { Cluster } from '../fleet/types.ts';
import type { EngineStats } from '../host/engine-report.ts';
import type { RunReport, TurnReport } from '../measure/schemas/report.ts';
import type { LogitKeeper } from '../measure/summaries/comparison.ts';
import { countsSince, spanCost } from '../measure/summaries/span-cost.ts';
import { summariseRun } from '../measure/summaries/summary.ts';
import { turnReport } from '../router/turn-report.ts';
import type { TurnResult } from '../router/turn-types.ts';
import { sumOf } from '../sum.ts';
import type { Conversation, Message } from '../workload/types.ts';
import type { Auditor } from './audit.ts';
import { ownSignal } from './own-signal.ts';
import { peakKvBytes } from './peak-kv.ts';
import { storeBytesBetween } from './store-bytes.ts';

export interface DriveOptions {
  sampling: Partial<SamplingParams>;
  /** Conversations served at the same time. */
  concurrency: number;
  signal: AbortSignal;
  /** Milliseconds. */
  now(): number;
  keeper: LogitKeeper | null;
  /** Audits a sample of turns; null or absent: none. */
  auditor?: Auditor | null;
  onToken(conversation: Conversation, turn: number, tokens: number): void;
  onTurn(turn: TurnReport): void;
}

/** Resets the cluster into the mode first. The caller checks integrity after the last mode. */
export async function driveMode(
  cluster: Cluster,
  mode: Mode,
  conversations: readonly Conversation[],
  options: DriveOptions,
): Promise<RunReport> {
  await cluster.setMode(mode);
  const before = await cluster.stats();
  const spansBefore = cluster.spanCounts();
  const begun = options.now();
  const turns: TurnReport[] = [];
  // The first failure ends the other conversations too.
  const failed = new AbortController();
  const signal = AbortSignal.any([options.signal, failed.signal]);
  const waiting = [...conversations];
  const serve = async (): Promise<void> => {
    const own = { ...options, signal: ownSignal(signal) };
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      try {
        await driveConversation(cluster, mode, next, own, turns);
      } catch (error) {
        failed.abort(error);
        throw error;
      }
    }
  };
  const servers = Array.from({ length: Math.min(options.concurrency, conversations.length) }, serve);
  await Promise.allSettled(servers);
  options.signal.throwIfAborted();
  if (failed.signal.aborted) throw failed.signal.reason;
  const wallMs = options.now() - begun;
  const after = await cluster.stats();
  const since = (value: (engine: EngineStats) => number): number =>
    sumOf(after, value) - sumOf(before, value);
  const spanRecorder = await spanCost(countsSince(spansBefore, cluster.spanCounts()), wallMs, options.now);
  return summariseRun(mode, turns, {
    firstUseCompilations: since((engine) => engine.firstUseCompilations),
    preemptions: since((engine) => engine.preemptions),
    wallMs,
    peakKvBytes: peakKvBytes(cluster.info, after),
    spanRecorder,
    store: storeBytesBetween(before, after),
  });
}

async function driveConversation(
  cluster: Cluster,
  mode: Mode,
  conversation: Conversation,
  options: DriveOptions,
  turns: TurnReport[],
): Promise<void> {
  const history: { messages: Message[]; tokenIds: readonly number[] } = { messages: [], tokenIds: [] };
  for (const [index, added] of conversation.turns.entries()) {
    const turn = index + 1;
    options.signal.throwIfAborted();
    const prompt =
      conversation.kind === 'text'
        ? { messages: [...history.messages, ...(added as readonly Message[])] }
        : { promptTokenIds: [...history.tokenIds, ...(added as readonly number[])] };
    const digests: string[] = [];
    let result: TurnResult | null = null;
    const sampling =
      conversation.kind === 'text'
        ? options.sampling
        : { ...options.sampling, maxTokens: conversation.outputTokens, ignoreEos: true };
    const request = { conversationId: conversation.id, ...prompt, sampling, signal: options.signal };
    for await (const token of untilAborted(cluster.generate(request), options.signal)) {
      digests.push(token.logitsDigest);
      if (token.logits && options.keeper) {
        options.keeper.add(mode, conversation.id, turn, token.index, token.tokenId, token.logits);
      }
      options.onToken(conversation, turn, digests.length);
      if (token.final) result = token.final;
    }
    options.signal.throwIfAborted();
    if (!result)
      throw new InternalError(`turn ${turn} of conversation ${conversation.id} ended without a result`);
    const text = conversation.kind === 'text' ? result.text : null;
    if (prompt.messages) history.messages = [...prompt.messages, { role: 'assistant', content: text ?? '' }];
    else history.tokenIds = [...result.promptTokenIds, ...result.outputTokenIds];
    const audit = options.auditor?.wants(result)
      ? await options.auditor.audit(cluster, request, result)
      : null;
    const report = {
      ...turnReport(conversation.id, turn, result, digests, text),
      ...(audit ? { audit } : {}),
    };
    turns.push(report);
    options.onTurn(report);
  }
  await cluster.endConversation(conversation.id);
}

/**
 * Passes the values on. Throws the signal's reason when it aborts, even while waiting for the next value. `onLeft` gets a
 * promise that resolves once `values` has ended.
 */
export async function* untilAborted<T>(
  values: AsyncIterable<T>,
  signal: AbortSignal,
  onLeft: (ended: Promise<unknown>) => void = () => {},
): AsyncGenerator<T> {
  const iterator = values[Symbol.asyncIterator]();
  let leave: () => void = () => {};
  const aborted = new Promise<never>((_, reject) => {
    const listener = (): void => reject(signal.reason);
    signal.addEventListener('abort', listener, { once: true });
    leave = () => signal.removeEventListener('abort', listener);
  });
  aborted.catch(() => {});
  try {
    signal.throwIfAborted();
    for (;;) {
      const next = await Promise.race([iterator.next(), aborted]);
      if (next.done) return;
      yield next.value;
    }
  } finally {
    leave();
    // Not awaited: a generator that is waiting for its engine cannot end before the engine answers.
    onLeft(Promise.resolve(iterator.return?.()).catch(() => {}));
  }
}
