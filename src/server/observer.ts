/** What metrics are made of: a port tells the life of each generation request as it happens. Milliseconds throughout. */
import type { PromptAccount } from '../engine/types.ts';

export interface RequestRecord {
  requestId: string;
  /** From the request's acceptance; null when no token came. */
  firstTokenMs: number | null;
  /** From the first token to the last; null when there were fewer than two. */
  decodeMs: number | null;
  latencyMs: number;
  outputTokens: number;
  /** Known at the end of an answer; null for one that did not come to it. */
  prompt: PromptAccount | null;
  /** Of the prompt's pulled tokens those that a store gave. */
  storedTokens: number;
  reason: 'stop' | 'length' | 'abort' | 'error';
  /** As asked for. */
  maxTokens: number;
}

export interface RequestObserver {
  /** A request was let in: answers to each prompt, and tokens of each at most. */
  asked(request: { n: number; maxTokens: number }): void;
  /** With every token: null for a request's first. */
  token(sincePreviousMs: number | null): void;
  /** Once for every request that was valid and not refused by a full queue. */
  finished(record: RequestRecord): void;
}
