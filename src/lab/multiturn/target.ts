/** What a benchmark's clients talk to: engines in this process, or a server. */
import type { PromptAccount } from '../../engine/types.ts';
import type { MeasuredRequest } from '../../measure/bench-summary.ts';
import type { TurnAudit } from '../../measure/report.ts';
import type { Message } from '../../workload/types.ts';
import type { Auditor } from '../audit.ts';

export interface TurnToSend {
  conversationId: string;
  /** From 1 on. */
  turn: number;
  /** The whole conversation so far. */
  prompt: { kind: 'tokens'; tokenIds: readonly number[] } | { kind: 'text'; messages: readonly Message[] };
  /** Of the answer; null is no limit. */
  minTokens: number | null;
  maxTokens: number | null;
  /** What the engines are made to generate; left out: what they sample. A server is not told. */
  forced?: readonly number[];
  /** Serves a sample of turns both ways; null: none. */
  auditor: Auditor | null;
  signal: AbortSignal;
}

export interface AnsweredTurn {
  ttftMs: number;
  latencyMs: number;
  /** Milliseconds between each token (each chunk of a server) and the one before. */
  gapsMs: readonly number[];
  /** null where a server does not say. */
  inputTokens: number | null;
  outputTokens: number;
  /** Chunks with text, the first one included. */
  chunks: number;
  /** What modes are compared by: token ids, digests of logits where tokens were forced, or the text of a server. */
  output: readonly (number | string)[];
  /** What the next turn's history gets. */
  answer: { kind: 'tokens'; tokenIds: readonly number[] } | { kind: 'text'; text: string };
  /** How the prompt came to have KV; parts are null where a server does not say. */
  account: {
    [K in keyof Pick<PromptAccount, 'localHitTokens' | 'pulledTokens' | 'computedTokens'>]: number | null;
  };
  stagesMs: Readonly<Record<string, number>>;
  /** Who served it; absent where nothing routes. */
  routed?: NonNullable<MeasuredRequest['routed']>;
  bytesPToD: number | null;
  bytesDToP: number | null;
  /** Of a turn that was served both ways; everything else is of the first time. */
  audit?: TurnAudit;
}

export interface BenchTarget {
  /** Throws RequestError when this request failed and others may go on; anything else ends the benchmark. */
  send(turn: TurnToSend): Promise<AnsweredTurn>;
  /** Nothing follows in this conversation. */
  endConversation(conversationId: string): Promise<void>;
  /** Resolves when nothing that was given up is still under way. */
  settled(): Promise<void>;
}
