/** What a benchmark's clients send requests to: engines in this process, or a server. */
import type { PromptAccount } from '../../engine/types.ts';
import type { TurnAudit } from '../../measure/schemas/report.ts';
import type { MeasuredRequest } from '../../measure/summaries/bench-summary.ts';
import type { Message } from '../../workload/types.ts';
import type { Auditor } from '../audit.ts';

export interface TurnToSend {
  conversationId: string;
  /** From 1. */
  turn: number;
  /** The whole conversation so far. */
  prompt: { kind: 'tokens'; tokenIds: readonly number[] } | { kind: 'text'; messages: readonly Message[] };
  /** Limits of the answer; null: no limit. */
  minTokens: number | null;
  maxTokens: number | null;
  /** Tokens that engines must generate; absent: they sample. Not sent to a server. */
  forced?: readonly number[];
  /** Audits a sample of turns; null: none. */
  auditor: Auditor | null;
  signal: AbortSignal;
}

export interface AnsweredTurn {
  ttftMs: number;
  latencyMs: number;
  /** Milliseconds between tokens (a server's chunks). */
  gapsMs: readonly number[];
  /** null: the server does not report it. */
  inputTokens: number | null;
  outputTokens: number;
  /** Chunks with text, including the first. */
  chunks: number;
  /** Compared between modes: token ids, digests of logits if tokens were forced, or a server's text. */
  output: readonly (number | string)[];
  /** Added to the next turn's history. */
  answer: { kind: 'tokens'; tokenIds: readonly number[] } | { kind: 'text'; text: string };
  /** How the prompt got its KV. null: the server does not report it. */
  account: {
    [K in keyof Pick<PromptAccount, 'localHitTokens' | 'pulledTokens' | 'computedTokens'>]: number | null;
  };
  /** Prompt tokens that a server says it had, wherever from; null: it does not report them. Absent for engines. */
  cachedTokens?: number | null;
  stagesMs: Readonly<Record<string, number>>;
  /** The engines that served the turn; absent without a router. */
  routed?: NonNullable<MeasuredRequest['routed']>;
  bytesPToD: number | null;
  bytesDToP: number | null;
  /** Set if the turn was served both ways. Everything else is from the first time. */
  audit?: TurnAudit;
}

export interface BenchTarget {
  /** Throws RequestError if only this request failed. Any other error ends the benchmark. */
  send(turn: TurnToSend): Promise<AnsweredTurn>;
  /** The conversation has no further turns. */
  endConversation(conversationId: string): Promise<void>;
  /** Resolves when no aborted turn is still running. */
  settled(): Promise<void>;
}
