/**
 * A trace in three forms: requests as a file has them, turns as they are served (scaled, linked to the turns that they
 * follow, with the content of prompt and answer fixed), and the tokens of those. Reading, linking and scaling stream.
 */

/** One request, in the trace's own lengths and times. */
export interface TraceRequest {
  /** Among those that could be read, from 0 on. */
  index: number;
  /** In the file, from 1 on; in a list of conversations its place in that. */
  line: number;
  /** Milliseconds since the first one; null for a turn that only follows another. */
  arrivalMs: number | null;
  /** From its arrival to the last token of its answer; null: the file does not say. */
  answeredMs: number | null;
  inputTokens: number;
  outputTokens: number;
  /** One for each block of the prompt, a last partial one included: equal ids are equal prefixes. null: the file has none. */
  hashIds: readonly number[] | null;
  origin: TraceOrigin;
}

/** Which turn of which conversation a request is, as far as the file says. */
export type TraceOrigin =
  | { kind: 'unsaid' }
  /** Goes on after the session's request before it; delayMs: from that one's last token on. */
  | { kind: 'session'; id: string; delayMs: number | null }
  /** Goes on after the chat of that id. */
  | { kind: 'chat'; id: string; parent: string | null };

/** Part of a prompt or an answer: what stands under `key` from `from` on. The same key and place always hold the same token. */
export interface Segment {
  key: number;
  from: number;
  length: number;
}

/** One turn to serve, in scaled lengths and times. */
export interface TraceTurn {
  /** The request's. */
  index: number;
  line: number;
  conversationId: string;
  /** From 1 on. */
  turn: number;
  arrival: TraceArrival;
  inputTokens: number;
  outputTokens: number;
  /** inputTokens in all. */
  prompt: readonly Segment[];
  /** outputTokens in all: what has to be generated, since the prompts of later turns hold it. */
  answer: readonly Segment[];
}

/** When a turn comes: at its own time, or so long after the last token of the request with that index. */
export type TraceArrival = { kind: 'at'; ms: number } | { kind: 'after'; index: number; thinkMs: number };

/** How a trace is made smaller or slower; said in every report. */
export interface TraceScale {
  /** Of the trace: tokens that a hash id stands for. */
  traceBlockSize: number;
  /** Every length is divided by it; traceBlockSize is a multiple of it. */
  lengthDivisor: number;
  /** Arrivals and think times are divided by it: 2 is twice the trace's rate. */
  speedUp: number;
}
