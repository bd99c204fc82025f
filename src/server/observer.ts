/** The events of a generation request from which metrics are built. All times are in milliseconds. */
import type { PromptAccount } from '../engine/types.ts';

export interface RequestRecord {
  requestId: string;
  /** From the request's acceptance to the first token; null if there was no token. */
  firstTokenMs: number | null;
  latencyMs: number;
  outputTokens: number;
  /** null if the answer did not complete. */
  prompt: PromptAccount | null;
  /** Those of the prompt's pulled tokens that came from a store. */
  storedTokens: number;
  reason: 'stop' | 'length' | 'abort' | 'error';
}

export interface RequestObserver {
  /** A request was admitted: `n` answers per prompt, each of at most `maxTokens` tokens. */
  requested(request: { n: number; maxTokens: number }): void;
  /** Called for every token; null for an answer's first. */
  token(sincePreviousMs: number | null): void;
  /** Called once for every answer whose prompt was valid and that was admitted. */
  finished(record: RequestRecord): void;
}
