/**
 * Spans: events with start, end and lane. Stage accounting, the trace, the Gantt chart and the page's timeline are all
 * derived from them.
 */

/** All span names, with their meanings. */
export const SPAN_NAMES = {
  accept: "the router's own work before it sends a turn to its first engine",
  route: 'the routing policy picks the engines for the turn',
  'hand over': "the router's own work between P's output and sending the turn to D",
  submit: "a request's message to an engine's thread",
  queue: "a request waits for its engine's next step",
  lookup: "lookup of a request in the engine's prefix cache and with the connector",
  schedule: 'the rest of planning a step: allocating blocks, posting reads',
  step: 'a batch runs, from plan to results',
  forward: 'kernels for a part of a batch, after its inputs are written',
  kernels: "one submit's kernels, on the device's own clock",
  sampling: 'sampled tokens are read back from the device',
  collect: 'results are processed: tokens appended, requests ended, blocks held or freed, outputs sent',
  'store lookup': 'the store looks up a request, and loads blocks from its folder',
  save: 'from the offer of blocks until the store has read them',
  transfer: 'a whole READ, from its start at the reader to its last block there',
  handshake: 'the first READ between two engines asks for a slab',
  wait: "waiting for the holder's device to finish its work, or for a free staging buffer",
  gather: 'copy commands for a chunk of blocks are encoded and submitted',
  readback: 'the device copies the blocks into mapped memory',
  'slab in': 'mapped memory to shared slab',
  link: 'the modelled link brings the chunk',
  'slab out': 'shared slab to mapped upload buffer',
  upload: 'the upload buffer is handed to the device with its copy commands',
  scatter: 'the device copies the bytes into the blocks',
  notify: 'message to the holder that the reader is done',
  scale: 'engines join or leave the fleet, from the decision until the last one has',
  mode: 'a mode of a run, from its first turn to its last',
  ttft: 'a turn, from acceptance to its first token',
  turn: 'a turn, from acceptance to its last token',
} as const;

export type SpanName = keyof typeof SPAN_NAMES;

/** 'host' and 'gpu' are lanes of the span's engine; 'link' is between two engines. */
export const LANES = ['router', 'host', 'gpu', 'link'] as const;
export type Lane = (typeof LANES)[number];

/** Engine ids. */
export interface Way {
  from: string;
  to: string;
}

/** The half of a turn: of the engine that prefills (or does both), or of the one that decodes. */
export type TurnSide = 'prefill' | 'decode';

export interface OfTurn {
  turnId: string;
  side: TurnSide;
}

/** A span as reported by the engine that did the work. The router adds the turn. */
export interface RawSpan {
  /** One of SPAN_NAMES; recordings may contain others. */
  name: string;
  /** null: the router. For a link: the destination engine. */
  engineId: string | null;
  lane: Lane;
  /** For a transfer and its stages: source and destination; for a notification, those of the message. */
  way?: Way;
  /** Milliseconds on the shared clock (performance.timeOrigin + performance.now()). */
  startMs: number;
  endMs: number;
  /** The clock of the times. 'gpu' times are shifted to the shared clock, and never added to host times. */
  clock: 'host' | 'gpu' | 'modelled';
  /** null for work for several requests or none. For a turn's own spans: the turn's id. */
  requestId: string | null;
  /** The requests of a batch. */
  requestIds?: readonly string[];
  /**
   * Arguments, by span name: transferId, chunk and bytes for a transfer's stages; bytes, blocks, descriptors, tokens and
   * outcome for a transfer; step and rows for a forward; freeBlocks and heldBlocks for a collect; conversationId, turn and
   * tokens for a turn, and SERVED_AGAIN if it was taken back before.
   */
  args: Readonly<Record<string, number | string>>;
}

export interface Span extends RawSpan {
  /** The turns that the work was for: several for a batch, none if no turn asked for it. */
  turns: readonly OfTurn[];
}

/** Argument of a turn's own spans if the turn was served before and taken back, as an audit does. */
export const SERVED_AGAIN = { served: 'again' } as const;

export type SpanSink = (span: RawSpan) => void;

type Place = Pick<RawSpan, 'engineId' | 'lane' | 'way'>;

export const atRouter = { engineId: null, lane: 'router' } as const satisfies Place;
export const onHost = (engineId: string) => ({ engineId, lane: 'host' }) as const satisfies Place;
export const onGpu = (engineId: string) => ({ engineId, lane: 'gpu' }) as const satisfies Place;
export const onLink = (way: Way) => ({ engineId: way.to, lane: 'link', way }) as const satisfies Place;

/** Display name and identity of a lane: 'prefill-0 gpu', 'link decode-0>prefill-0', 'router'. */
export function laneName({ engineId, lane, way }: Place): string {
  if (lane === 'router' || engineId === null) return 'router';
  return lane === 'link' ? `link ${wayName(way)}` : `${engineId} ${lane}`;
}

export const wayName = (way: Way | undefined): string => (way ? `${way.from}>${way.to}` : '');

export function routerSpan(
  name: SpanName,
  requestId: string,
  startMs: number,
  endMs: number,
  args: RawSpan['args'] = {},
): RawSpan {
  return { name, ...atRouter, startMs, endMs, clock: 'host', requestId, args };
}

/** The side of the turn that the span's work was for; null: not for this turn. */
export const sideOf = ({ turns }: Pick<Span, 'turns'>, turnId: string): TurnSide | null =>
  turns.find((turn) => turn.turnId === turnId)?.side ?? null;
