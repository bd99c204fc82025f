/**
 * Spans: what happened from when to when, on which lane. Only things that took place are recorded. Stage accounting, the
 * trace, the Gantt chart and the page's timeline are all drawn from them; nothing here draws.
 */

/** Every name that a span can have, with what the time between its ends was spent on. */
export const SPAN_NAMES = {
  accept: "the router's own work before it sends a turn to its first engine",
  'hand over': "the router's own work between P's output and sending the turn to D",
  submit: "a request's message on its way to an engine's thread",
  queue: "a request waits for its engine's next step",
  lookup: "the engine's prefix cache and the connector are asked for a request",
  schedule: 'the rest of planning a step: blocks allocated, reads posted',
  step: 'a batch runs, from plan to results',
  forward: 'kernels of a piece of a batch, inputs written before them',
  kernels: "one submit's kernels, on the device's own clock",
  sampling: 'sampled tokens come back from the device',
  collect: 'results taken: tokens appended, requests ended, blocks held or freed, outputs sent',
  transfer: 'a whole READ, from its start at the reader to its last block there',
  handshake: 'the first READ between two engines asks for a slab',
  wait: "the holder's device finishes its piece of work, or a staging buffer comes free",
  gather: 'copy commands for a chunk of blocks are encoded and submitted',
  readback: 'the device copies the blocks into mapped memory',
  'slab in': 'mapped memory to shared slab',
  link: 'the modelled link brings the chunk',
  'slab out': 'shared slab to mapped upload buffer',
  upload: 'the upload buffer is handed to the device with its copy commands',
  scatter: 'the device copies the bytes into the blocks',
  notify: 'the message that the reader is done, on its way to the holder',
  mode: 'a mode of a run, from its first turn to its last',
  ttft: 'a turn, from acceptance to its first token',
  turn: 'a turn, from acceptance to its last token',
} as const;

export type SpanName = keyof typeof SPAN_NAMES;

export interface Span {
  /** One of SPAN_NAMES; a recording may hold others. */
  name: string;
  /** '<engineId> gpu', '<engineId> host', 'link <from>><to>' or 'router'. */
  lane: string;
  /** Milliseconds on the shared clock (performance.timeOrigin + performance.now()). */
  startMs: number;
  endMs: number;
  /** Which clock gave the times. 'gpu' times are moved onto the shared clock, and are never added to host times. */
  clock: 'host' | 'gpu' | 'modelled';
  /** null for what is done for several requests, or for none. */
  requestId: string | null;
  /** The requests of a batch. */
  requestIds?: readonly string[];
  /**
   * By name: transferId, way ('<holder>><reader>'), chunk and bytes of a transfer's stages; bytes, blocks, descriptors, tokens and outcome of a
   * transfer; step, rows of a forward; freeBlocks and heldBlocks of a collect; conversationId, turn and tokens of a turn.
   */
  args: Readonly<Record<string, number | string>>;
}

export type SpanSink = (span: Span) => void;

export const ROUTER_LANE = 'router';
export const gpuLane = (engineId: string): string => `${engineId} gpu`;
export const hostLane = (engineId: string): string => `${engineId} host`;
/** Of bytes: from their holder to their reader. */
export const wayBetween = (holderId: string, readerId: string): string => `${holderId}>${readerId}`;
export const linkLane = (from: string, to: string): string => `link ${wayBetween(from, to)}`;

/** A turn's request at P, at D; the request of one engine that does both keeps the turn's own id. */
export const prefillRequestId = (turnId: string): string => `${turnId}-p`;
export const decodeRequestId = (turnId: string): string => `${turnId}-d`;

const SIDE = /^(.*)-(p|d|again\d+)$/s;

/** Which turn a request belongs to, and on which side. One engine that does both, or does it again, is 'p'. */
export function turnOfRequest(requestId: string): { turnId: string; side: 'p' | 'd' } {
  const [, turnId = requestId, suffix] = SIDE.exec(requestId) ?? [];
  return { turnId, side: suffix === 'd' ? 'd' : 'p' };
}

export function routerSpan(
  name: SpanName,
  requestId: string,
  startMs: number,
  endMs: number,
  args: Span['args'] = {},
): Span {
  return { name, lane: ROUTER_LANE, startMs, endMs, clock: 'host', requestId, args };
}
