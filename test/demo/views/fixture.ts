/** Events of two turns, for tests of the drawings: P computes and hands over, D writes, P pulls back. */
import type { BlockView, Role, SessionEvent, Span, TurnReport } from '../../../demo/src/session/types.ts';
import { atRouter, onGpu, onHost, onLink, type Way } from '../../../src/measure/spans/spans.ts';

const BLOCK_BYTES = 16_384;

export const block = (id: number, change: Partial<BlockView>): BlockView => ({
  id,
  state: 'computed',
  origin: 'computed',
  conversation: 'talk',
  turn: 1,
  author: 'user',
  index: id - 1,
  tokens: 16,
  text: `tokens of block ${id}`,
  hash: `${id}f`.padStart(16, '0'),
  refCount: 1,
  heldFor: null,
  heldUntilMs: null,
  evictions: 0,
  ...change,
});

const noTransfer = { bytes: 0, blocks: 0, ms: 0, throttled: false };

export const turnReport = (change: Partial<TurnReport>): TurnReport => ({
  conversation_id: 'talk',
  turn: 1,
  prompt_tokens: 48,
  local_hit_tokens: 0,
  pulled_tokens: 0,
  computed_tokens: 48,
  no_pull_reason: null,
  output_tokens: 64,
  output_token_ids: [],
  text: 'Once upon a time.',
  finish_reason: 'stop',
  ttft_ms: 120,
  tpot_ms: 9,
  latency_ms: 700,
  stages_ms: { prefill: 95, hand_over_readback: 15, first_decode_step: 10 },
  transfer: { p_to_d: noTransfer, d_to_p: noTransfer },
  ...change,
});

type Where = Pick<Span, 'engineId' | 'lane' | 'way'>;

const pHost = onHost('prefill-0');
const dHost = onHost('decode-0');
const pGpu = onGpu('prefill-0');
const dGpu = onGpu('decode-0');
const over = { from: 'prefill-0', to: 'decode-0' };
const back = { from: 'decode-0', to: 'prefill-0' };

const span = (
  name: string,
  where: Where,
  startMs: number,
  endMs: number,
  clock: 'host' | 'gpu' | 'modelled' = 'host',
  args: Record<string, number | string> = {},
) => ({ name, ...where, startMs, endMs, clock, requestId: 'r', turns: [], args });

const pairs = (count: number, from = 1): [number, number][] =>
  Array.from({ length: count }, (_, i) => [from + i, from + i]);

const transfer = (
  requestId: string,
  way: Way,
  list: [number, number][],
  startMs: number,
  endMs: number,
): SessionEvent[] => {
  const shared = { requestId, ...way, side: way === back ? 'prefill' : 'decode' } as const;
  const bytes = list.length * BLOCK_BYTES;
  return [
    { kind: 'transfer_started', atMs: startMs, ...shared, pairs: list, bytes },
    { kind: 'slab', atMs: startMs + 1, engineId: way.from, slotsInUse: 3, slots: 4, slotBytes: 65_536 },
    {
      kind: 'transfer_ended',
      atMs: endMs,
      ...shared,
      outcome: 'done',
      message: '',
      bytes,
      blocks: list.length,
      ms: endMs - startMs,
      stagesMs: { wait: 1, readback: 3, 'slab in': 1, 'slab out': 1, upload: 3, notify: 0.2 },
      throttled: false,
    },
  ];
};

const engine = (engineId: string, role: Role) => ({
  engineId,
  role,
  numBlocks: 64,
  loadMs: 400,
  compileMs: 300,
  memory: {},
});

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);

/** Up to the end of turn 1. */
export const turn1: readonly SessionEvent[] = [
  { kind: 'status', atMs: 0, phase: 'ready', message: 'Ready', progress: null },
  {
    kind: 'machine',
    atMs: 0,
    machine: {
      adapter: { name: 'a fake adapter', backend: 'vulkan', software: true },
      model: {
        name: 'recall',
        parameters: 1_770_000,
        maxModelLen: 1024,
        kvBytesPerToken: 1024,
        blockBytes: BLOCK_BYTES,
        vocabSize: 1024,
      },
      blockSize: 16,
      engines: [engine('prefill-0', 'prefill'), engine('decode-0', 'decode')],
      startMs: 900,
      link: null,
    },
  },
  { kind: 'engine', atMs: 0, engineId: 'prefill-0', role: 'prefill', alive: true, message: null },
  { kind: 'engine', atMs: 0, engineId: 'decode-0', role: 'decode', alive: true, message: null },
  { kind: 'blocks', atMs: 0, engineId: 'prefill-0', numBlocks: 64, changed: [] },
  { kind: 'blocks', atMs: 0, engineId: 'decode-0', numBlocks: 64, changed: [] },
  {
    kind: 'turn_started',
    atMs: 1000,
    turnId: 't1',
    conversation: 'talk',
    turn: 1,
    mode: 'bidirectional',
    question: 'Tell me a story about Gus and a bear.',
    edited: false,
  },
  {
    kind: 'spans',
    atMs: 1120,
    spans: [
      span('admit', atRouter, 1000, 1002),
      span('prefill', pGpu, 1004, 1095, 'gpu', { tokens: 48 }),
      span('step', pHost, 1002, 1097),
      span('readback', { ...pHost, way: over }, 1098, 1102, 'host', { bytes: 49_152, chunk: 0 }),
      span('slab in', { ...pHost, way: over }, 1102, 1103, 'host', { bytes: 49_152, chunk: 0 }),
      span('link', onLink(over), 1103, 1105, 'modelled', { bytes: 49_152, chunk: 0 }),
      span('slab out', { ...dHost, way: over }, 1105, 1106, 'host', { bytes: 49_152, chunk: 0 }),
      span('upload', { ...dHost, way: over }, 1106, 1109, 'host', { bytes: 49_152, chunk: 0 }),
      span('decode', dGpu, 1110, 1119, 'gpu'),
    ],
  },
  ...transfer('d-1', over, pairs(3), 1097, 1109),
  {
    kind: 'blocks',
    atMs: 1115,
    engineId: 'decode-0',
    numBlocks: 64,
    changed: [1, 2, 3].map((id) => block(id, { state: 'pulled', origin: 'pulled' })),
  },
  { kind: 'token', atMs: 1120, turnId: 't1', text: 'Once', tokens: 1 },
  {
    kind: 'spans',
    atMs: 1700,
    spans: range(0, 63).map((i) => span('decode', dGpu, 1121 + i * 9, 1128 + i * 9, 'gpu', { tokens: 1 })),
  },
  { kind: 'turn_ended', atMs: 1700, turnId: 't1', result: turnReport({}) },
  {
    kind: 'blocks',
    atMs: 1700,
    engineId: 'decode-0',
    numBlocks: 64,
    changed: range(1, 8).map((id) =>
      block(id, {
        state: 'held',
        origin: id <= 3 ? 'pulled' : 'computed',
        author: id <= 3 ? 'user' : 'assistant',
        refCount: 0,
        heldFor: 'prefill',
        heldUntilMs: 481_700,
      }),
    ),
  },
];

/** From the start of turn 2 to its end. */
export const turn2: readonly SessionEvent[] = [
  {
    kind: 'turn_started',
    atMs: 3000,
    turnId: 't2',
    conversation: 'talk',
    turn: 2,
    mode: 'bidirectional',
    question: 'What color was the bear?',
    edited: false,
  },
  ...transfer('p-2', back, pairs(7), 3003, 3017),
  {
    kind: 'blocks',
    atMs: 3018,
    engineId: 'prefill-0',
    numBlocks: 64,
    changed: [
      ...range(1, 8).map((id) => block(id, { state: 'pulled', origin: 'pulled' })),
      block(8, { turn: 2 }),
      block(12, { state: 'evicted', origin: null, turn: null, evictions: 1, refCount: 0 }),
      block(13, { state: 'cached', refCount: 0 }),
      block(14, { state: 'hit' }),
    ],
  },
  {
    kind: 'spans',
    atMs: 3040,
    spans: [
      span('readback', { ...dHost, way: back }, 3004, 3008, 'host', { bytes: 114_688, chunk: 0 }),
      span('slab in', { ...dHost, way: back }, 3008, 3009, 'host', { bytes: 114_688, chunk: 0 }),
      span('slab out', { ...pHost, way: back }, 3010, 3011, 'host', { bytes: 114_688, chunk: 0 }),
      span('upload', { ...pHost, way: back }, 3011, 3016, 'host', { bytes: 114_688, chunk: 0 }),
      span('prefill', pGpu, 3019, 3030, 'gpu', { tokens: 14 }),
      span('decode', dGpu, 3034, 3040, 'gpu'),
    ],
  },
  ...transfer('d-2', over, [[8, 8]], 3031, 3034),
  { kind: 'token', atMs: 3040, turnId: 't2', text: 'Brown', tokens: 1 },
  {
    kind: 'turn_ended',
    atMs: 3060,
    turnId: 't2',
    result: turnReport({
      turn: 2,
      prompt_tokens: 126,
      pulled_tokens: 112,
      computed_tokens: 14,
      ttft_ms: 40,
      output_tokens: 3,
      text: 'Brown.',
      stages_ms: { pull_readback: 14, prefill: 13, hand_over_readback: 5, first_decode_step: 8 },
    }),
  },
];

export const raceEvent: SessionEvent = {
  kind: 'race',
  atMs: 5000,
  race: {
    question: 'Who came?',
    historyTokens: 131,
    recompute: {
      phase: 'done',
      startedMs: 4200,
      ttftMs: 136,
      pulledTokens: 0,
      computedTokens: 140,
      bytesPulled: 0,
      stagesMs: { prefill: 118, hand_over_readback: 10, first_decode_step: 8 },
      answer: 'A fox came.',
    },
    pull: {
      phase: 'done',
      startedMs: 4600,
      ttftMs: 38,
      pulledTokens: 128,
      computedTokens: 12,
      bytesPulled: 131_072,
      stagesMs: { pull_readback: 15, prefill: 10, hand_over_readback: 6, first_decode_step: 7 },
      answer: 'A fox came.',
    },
    error: null,
  },
};

export const crossoverEvent: SessionEvent = {
  kind: 'crossover',
  atMs: 6000,
  crossover: {
    points: [16, 32, 64, 128, 256].map((tokens) => ({
      tokens,
      pullMs: 20 + tokens * 0.05,
      recomputeMs: 4 + tokens * 0.6,
    })),
    done: 10,
    total: 10,
    crossoverTokens: 29,
    running: false,
    error: null,
  },
};
