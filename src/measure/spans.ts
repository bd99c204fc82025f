/** Spans: what happened from when to when, on which lane. Only things that took place are recorded. */

export interface Span {
  name: string;
  /** e.g. 'P host', 'P gpu', 'link P>D', 'router'. */
  lane: string;
  /** Milliseconds on the shared clock (performance.timeOrigin + performance.now()). */
  startMs: number;
  endMs: number;
  /** Which clock gave the times. */
  clock: 'host' | 'gpu' | 'modelled';
  requestId: string | null;
  args: Readonly<Record<string, number | string>>;
}

export type SpanSink = (span: Span) => void;
