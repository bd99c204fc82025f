/**
 * A trace in three forms: requests as a file has them; turns as they are served (scaled, linked to the turns that they
 * follow, with the content of prompt and answer fixed); and their tokens. Reading, linking and scaling stream.
 */

/** One request, in the trace's own lengths and times. */
export interface TraceRequest {
  /** Index among the requests that could be read, from 0 on. */
  index: number;
  /** Line in the file, from 1 on; for a list of conversations, the place in it. */
  line: number;
  /** Milliseconds since the first request; null for a turn that only follows another. */
  arrivalMs: number | null;
  /** Milliseconds from its arrival to the last token of its answer; null: the file does not say. */
  answeredMs: number | null;
  inputTokens: number;
  outputTokens: number;
  /**
   * One for each block of the prompt, a last partial one included: equal ids mean equal prefixes. null: the file has
   * none.
   */
  hashIds: readonly number[] | null;
  origin: TraceOrigin;
}

/** Which turn of which conversation a request is, as far as the file says. */
export type TraceOrigin =
  | { kind: 'unsaid' }
  /** Follows the session's previous request; delayMs: from the last token of that one's answer. */
  | { kind: 'session'; id: string; delayMs: number | null }
  /** Follows the chat `parent`; null: follows none. */
  | { kind: 'chat'; id: string; parent: string | null };

/**
 * Part of a prompt or an answer: tokens of the content `key`, from place `from` on. The same key and place always hold
 * the same token.
 */
export interface Segment {
  key: number;
  from: number;
  length: number;
}

/** One turn to serve, in scaled lengths and times. */
export interface TraceTurn {
  /** The index of its request. */
  index: number;
  line: number;
  conversationId: string;
  /** From 1 on. */
  turn: number;
  arrival: TraceArrival;
  inputTokens: number;
  outputTokens: number;
  /** Contents of the prompt, inputTokens in all. */
  prompt: readonly Segment[];
  /**
   * Contents of the answer, outputTokens in all. They have to be generated, since the prompts of later turns contain
   * them.
   */
  answer: readonly Segment[];
}

/** When a turn arrives: at its own time, or thinkMs after the last token of the request with that index. */
export type TraceArrival = { kind: 'at'; ms: number } | { kind: 'after'; index: number; thinkMs: number };

/** Arrivals that are drawn for a trace without times, before it is sped up. */
export interface DrawnArrivals {
  /** Conversations that begin in a second, with exponential gaps. */
  perSecond: number;
  /** From the last token of an answer to the next turn. */
  thinkMs: number;
}

/** How a trace is scaled; stated in every report. */
export interface TraceScale {
  /** Tokens of the trace that a hash id stands for. */
  traceBlockSize: number;
  /** Every length is divided by it; traceBlockSize is a multiple of it. */
  lengthDivisor: number;
  /** Arrivals and think times are divided by it: 2 is twice the trace's rate. */
  speedUp: number;
}
