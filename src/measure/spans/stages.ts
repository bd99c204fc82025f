/**
 * Splits a turn's TTFT into stages: each moment counts for the one stage that was waited for, so the stages add up to TTFT.
 * Time of a stage while another one was waited for is counted separately, as overlapped.
 */
import { STORE_ADDRESS } from '../../config/connectors.ts';
import { criticalPath, type PathPiece } from './critical-path.ts';
import { type Span, type SpanName, sideOf, type TurnSide } from './spans.ts';

export const STAGE_GROUPS = [
  'router',
  'queue',
  'lookup',
  'handshake',
  'load',
  'pull',
  'prefill',
  'sampling',
  'handover',
  'decode',
  'other',
] as const;
export type StageGroup = (typeof STAGE_GROUPS)[number];

interface StageFacts {
  group: StageGroup;
  meaning: string;
}

/** A transfer's stages, by span. `messages` is the rest of the transfer. */
const TRANSFER_STAGES = {
  wait: "waiting for the holder's device to finish its work, or for a free staging buffer",
  gather: 'copy commands for the blocks are encoded and submitted at the holder',
  readback: "the holder's device copies blocks into mapped memory",
  slab_in: 'mapped memory to shared slab',
  link: 'the modelled link brings the bytes',
  slab_out: "shared slab to the reader's mapped upload buffer",
  upload: "the upload buffer is handed to the reader's device",
  scatter: "the reader's device copies the bytes into its blocks",
  notify: 'message that the reader is done',
  messages:
    "between a transfer's stages: messages between the two threads, and waiting for a slot of the slab",
} as const;
type TransferStage = keyof typeof TRANSFER_STAGES;

const transferStages = <P extends string>(prefix: P, group: StageGroup, what: string) =>
  Object.fromEntries(
    Object.entries(TRANSFER_STAGES).map(([name, meaning]) => [
      `${prefix}_${name}`,
      { group, meaning: `${what}: ${meaning}` },
    ]),
  ) as Record<`${P}_${TransferStage}`, StageFacts>;

const stage = (group: StageGroup, meaning: string): StageFacts => ({ group, meaning });

/** Stages in a turn's order. Keys are the names in stages_ms. A single engine uses P's stages. */
export const STAGES = {
  router: stage('router', "the router's own work, and messages to an engine"),
  queue_p: stage('queue', "waiting for P's next step, or for other requests in the same step"),
  lookup_p: stage('lookup', 'P looks up the prompt in its prefix cache, and what D offers in addition'),
  schedule_p: stage(
    'queue',
    "the rest of P's step around its kernels: allocating blocks, processing results",
  ),
  load_p_lookup: stage('load', 'P asks the store what it has of the prompt'),
  load_p_handshake: stage('handshake', 'the first load of P from the store asks for a slab'),
  ...transferStages('load_p', 'load', 'store to P'),
  pull_handshake: stage('handshake', 'the first pull of P from D asks for a slab'),
  ...transferStages('pull', 'pull', 'D to P'),
  prefill: stage('prefill', "P's kernels over the prompt tokens that it computes"),
  sampling_p: stage('sampling', "the sampled token is read back from P's device"),
  queue_d: stage('queue', "waiting for D's next step, or for other requests in the same step"),
  lookup_d: stage('lookup', 'D looks up the prompt in its prefix cache, and what P offers in addition'),
  schedule_d: stage(
    'queue',
    "the rest of D's step around its kernels: allocating blocks, processing results",
  ),
  load_d_lookup: stage('load', 'D asks the store what it has of the prompt'),
  load_d_handshake: stage('handshake', 'the first load of D from the store asks for a slab'),
  ...transferStages('load_d', 'load', 'store to D'),
  hand_over_handshake: stage('handshake', 'the first read of D from P asks for a slab'),
  ...transferStages('hand_over', 'handover', 'P to D'),
  first_decode_step: stage(
    'decode',
    "D's kernels up to its first token: the last prompt token, and what did not arrive",
  ),
  sampling_d: stage('sampling', "the first token is read back from D's device"),
  other: stage('other', 'time that no span covers'),
} as const satisfies Record<string, StageFacts>;

export type StageName = keyof typeof STAGES;
export const stageNames = Object.keys(STAGES) as readonly StageName[];

/** Sums of stages by group; unknown stages count as 'other'. */
export function groupStages(stagesMs: Readonly<Record<string, number>>): Record<StageGroup, number> {
  const sums = Object.fromEntries(STAGE_GROUPS.map((group) => [group, 0])) as Record<StageGroup, number>;
  for (const [name, ms] of Object.entries(stagesMs)) {
    sums[name in STAGES ? STAGES[name as StageName].group : 'other'] += ms;
  }
  return sums;
}

/** Mean of each stage over the turns; a stage that a turn lacks counts as 0. */
export function meanStages(
  turns: readonly { stages_ms: Readonly<Record<string, number>> }[],
): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const { stages_ms } of turns) {
    for (const [name, ms] of Object.entries(stages_ms)) sums[name] = (sums[name] ?? 0) + ms;
  }
  return Object.fromEntries(Object.entries(sums).map(([name, sum]) => [name, sum / turns.length]));
}

/** A turn in a few parts, for pictures; the last one contains queues, lookups and messages between threads. */
const PARTS = {
  pull: /^(pull|load_p)_/,
  prefill: /^(prefill|sampling_p)$/,
  hand_over: /^(hand_over|load_d)_/,
  first_decode_step: /^(first_decode_step|sampling_d)$/,
  between: /^(router|queue_.|lookup_.|schedule_.|other)$/,
} as const;

export const STAGE_PARTS = Object.keys(PARTS) as readonly (keyof typeof PARTS)[];

/** The part that a stage belongs to; an unknown stage is its own part. */
export const partOf = (name: string): string =>
  Object.entries(PARTS).find(([, pattern]) => pattern.test(name))?.[0] ?? name;

/** Sums by part, in a turn's order. */
export function foldStages(stagesMs: Readonly<Record<string, number>>): Record<string, number> {
  const sums: Record<string, number> = Object.fromEntries(STAGE_PARTS.map((part) => [part, 0]));
  for (const [name, ms] of Object.entries(stagesMs)) {
    const part = partOf(name);
    sums[part] = (sums[part] ?? 0) + ms;
  }
  return sums;
}

export interface TurnWindow {
  turnId: string;
  acceptedMs: number;
  firstTokenMs: number;
}

export interface StageTimes {
  /** Milliseconds for which the first token waited for the stage. They add up to TTFT. */
  stagesMs: Record<string, number>;
  /**
   * Other time of the stage's spans in the same window, while something else was waited for. Concurrent chunks of a transfer
   * each count.
   */
  overlappedMs: Record<string, number>;
}

/** Omits stages without time, except 'other'. Ignores spans of other turns and of 'gpu' clocks. */
export function turnStages(spans: readonly Span[], window: TurnWindow): StageTimes {
  if (spans.length === 0)
    return { stagesMs: { other: window.firstTokenMs - window.acceptedMs }, overlappedMs: {} };
  const stagesMs: Record<string, number> = { other: 0 };
  const overlappedMs: Record<string, number> = {};
  const pieces = stagePieces(spans, window);
  const path = criticalPath(awaitedPieces(pieces, window), window.acceptedMs, window.firstTokenMs);
  for (const { key, startMs, endMs } of path) {
    const name = key ?? 'other';
    stagesMs[name] = (stagesMs[name] ?? 0) + endMs - startMs;
  }
  for (const { key, startMs, endMs, envelope } of pieces) {
    const ms = Math.min(endMs, window.firstTokenMs) - Math.max(startMs, window.acceptedMs);
    if (ms > 0 && !envelope) overlappedMs[key] = (overlappedMs[key] ?? 0) + ms;
  }
  for (const name of Object.keys(overlappedMs)) {
    const beyond = overlappedMs[name]! - (stagesMs[name] ?? 0);
    if (beyond > 0) overlappedMs[name] = beyond;
    else delete overlappedMs[name];
  }
  return { stagesMs: inOrder(stagesMs), overlappedMs: inOrder(overlappedMs) };
}

const inOrder = (times: Readonly<Record<string, number>>): Record<string, number> =>
  Object.fromEntries(stageNames.flatMap((name) => (name in times ? [[name, times[name]!]] : [])));

export interface StagePiece extends PathPiece<StageName> {
  /** It encloses other stages' spans, so its overlap does not count. */
  envelope: boolean;
  side: TurnSide;
  /** Computation or sampling on the engine that prefills. */
  prefills: boolean;
}

/**
 * Spans that the first token may have waited for: on D's side, only after the end of P's prefill. Earlier work of a streamed
 * handover is overlapped.
 */
export function awaitedPieces(
  pieces: readonly StagePiece[],
  { firstTokenMs }: Pick<TurnWindow, 'firstTokenMs'>,
): StagePiece[] {
  const prefills = pieces.filter((piece) => piece.prefills && piece.startMs < firstTokenMs);
  const prefilledMs = Math.max(Number.NEGATIVE_INFINITY, ...prefills.map(({ endMs }) => endMs));
  return pieces.flatMap((piece) => {
    if (piece.side === 'prefill' || piece.startMs >= prefilledMs) return [piece];
    return piece.endMs > prefilledMs ? [{ ...piece, startMs: prefilledMs }] : [];
  });
}

/** The spans of one turn as stages, for the critical path or for a drawing. */
export function stagePieces(spans: readonly Span[], { turnId }: Pick<TurnWindow, 'turnId'>): StagePiece[] {
  return spans.flatMap((span): StagePiece[] => {
    // A request that runs alone waits for no other request in its step.
    const alone = span.name === 'step' && span.requestId !== null;
    const place = alone ? STEP_ALONE : placeOf(span);
    const side = place && span.clock !== 'gpu' ? sideOf(span, turnId) : null;
    if (!place || !side) return [];
    const { startMs, endMs } = span;
    const { waitRank, envelope } = place;
    const prefills = side === 'prefill' && (span.name === 'forward' || span.name === 'sampling');
    return [{ key: place[side], startMs, endMs, waitRank, envelope, side, prefills }];
  });
}

/** Reads from the store are neither pulls nor handovers. */
const placeOf = ({ name, way }: Span): Place | undefined =>
  (way?.from === STORE_ADDRESS.engineId || way?.to === STORE_ADDRESS.engineId ? LOAD_OF_SPAN : STAGE_OF_SPAN)[
    name as SpanName
  ];

interface Place extends Readonly<Record<TurnSide, StageName>> {
  waitRank: number | null;
  envelope: boolean;
}

const work = (prefill: StageName, decode: StageName): Place => ({
  prefill,
  decode,
  waitRank: null,
  envelope: false,
});
const wait = (waitRank: number, prefill: StageName, decode: StageName, envelope = false): Place => ({
  prefill,
  decode,
  waitRank,
  envelope,
});
const moved = (name: TransferStage): Place => work(`pull_${name}`, `hand_over_${name}`);

const STEP_ALONE = wait(4, 'schedule_p', 'schedule_d', true);

const loaded = (name: TransferStage): Place => work(`load_p_${name}`, `load_d_${name}`);

const LOAD_OF_SPAN: Partial<Record<SpanName, Place>> = {
  'store lookup': wait(2, 'load_p_lookup', 'load_d_lookup'),
  handshake: work('load_p_handshake', 'load_d_handshake'),
  gather: loaded('gather'),
  readback: loaded('readback'),
  'slab in': loaded('slab_in'),
  link: loaded('link'),
  'slab out': loaded('slab_out'),
  upload: loaded('upload'),
  scatter: loaded('scatter'),
  wait: wait(1, 'load_p_wait', 'load_d_wait'),
  transfer: wait(2, 'load_p_messages', 'load_d_messages', true),
  notify: wait(6, 'load_p_notify', 'load_d_notify'),
};

/** Waits by rank, best first. A transfer's envelope only counts if nothing inside it is known to have been running. */
const STAGE_OF_SPAN: Partial<Record<SpanName, Place>> = {
  accept: work('router', 'router'),
  'hand over': work('router', 'router'),
  lookup: work('lookup_p', 'lookup_d'),
  forward: work('prefill', 'first_decode_step'),
  sampling: work('sampling_p', 'sampling_d'),
  handshake: work('pull_handshake', 'hand_over_handshake'),
  gather: moved('gather'),
  readback: moved('readback'),
  'slab in': moved('slab_in'),
  link: moved('link'),
  'slab out': moved('slab_out'),
  upload: moved('upload'),
  scatter: moved('scatter'),
  schedule: wait(0, 'schedule_p', 'schedule_d', true),
  collect: wait(0, 'schedule_p', 'schedule_d', true),
  wait: wait(1, 'pull_wait', 'hand_over_wait'),
  transfer: wait(2, 'pull_messages', 'hand_over_messages', true),
  queue: wait(3, 'queue_p', 'queue_d'),
  step: wait(4, 'queue_p', 'queue_d', true),
  submit: wait(5, 'router', 'router'),
  notify: wait(6, 'pull_notify', 'hand_over_notify'),
};
