/**
 * The events of a cluster. The page draws only these, from running engines or from a file. Times are milliseconds since the
 * session began, tokens are counts, bytes are those copied.
 */
import { z } from 'zod';
import { MODES } from '../config/modes.ts';
import { turnSchema } from '../measure/schemas/report.ts';
import { LANES } from '../measure/spans/spans.ts';
import { crossoverSchema, raceSchema, stallSchema } from './experiments.ts';

const count = z.number().int().nonnegative();
const role = z.enum(['prefill', 'decode']);
/** An engine's id. Its role is in `machine` and in the `engine` event. */
const engineId = z.string();
/** Which half of a turn. */
const side = z.enum(['prefill', 'decode']);
const mode = z.enum(MODES);

const BLOCK_STATES = [
  'free', // empty, or with content that can no longer be found
  'computed', // in use: this engine computed its KV
  'hit', // in use: found in this engine's own prefix cache
  'arriving', // in use: its KV is being copied
  'pulled', // in use: its KV came from the other engine
  'held', // its request has ended; kept for the other engine
  'cached', // free, but can still be found by its hash
  'evicted', // free, and its hash was removed
  'null', // block 0, which no request owns
] as const;

export const blockSchema = z.strictObject({
  id: count,
  state: z.enum(BLOCK_STATES),
  origin: z.enum(['computed', 'pulled']).nullable().describe('How its content came here; null if empty.'),
  conversation: z.string().nullable().describe('The conversation of its tokens; null if empty.'),
  turn: count.nullable().describe('The turn of its first token, from 1.'),
  author: z.enum(['user', 'assistant', 'both']).nullable().describe('The author of its tokens.'),
  index: count.nullable().describe('Place in the conversation, in blocks, from 0.'),
  group: count.exactOptional().describe('KV cache group, for models with several.'),
  tokens: count.describe('Tokens in it, at most the block size.'),
  text: z.string().nullable().describe('Its tokens as text; null if empty or no longer known.'),
  hash: z.string().nullable().describe('First 16 hex digits; null while it is not in the prefix cache.'),
  refCount: count.describe('Number of requests whose block table has it.'),
  heldFor: side.nullable().describe('Which side of a turn may still read it.'),
  heldUntilMs: z.number().nullable().describe('When the hold expires.'),
  evictions: count.describe('How often content was evicted from it.'),
});

const spanSchema = z.strictObject({
  name: z.string(),
  engineId: engineId.nullable().describe('null: the router.'),
  lane: z.enum(LANES),
  way: z.strictObject({ from: engineId, to: engineId }).exactOptional(),
  startMs: z.number(),
  endMs: z.number(),
  clock: z.enum(['host', 'gpu', 'modelled']),
  requestId: z.string().nullable(),
  requestIds: z.array(z.string()).exactOptional(),
  turns: z.array(z.strictObject({ turnId: z.string(), side })),
  args: z.record(z.string(), z.union([z.number(), z.string()])),
});

const engineSchema = z.strictObject({
  engineId,
  role,
  numBlocks: count.describe('Includes the null block.'),
  loadMs: z.number(),
  compileMs: z.number(),
  memory: z.record(z.string(), z.number()).describe('Bytes by purpose.'),
});

export const machineSchema = z.strictObject({
  adapter: z.strictObject({ name: z.string(), backend: z.string(), software: z.boolean() }),
  model: z.strictObject({
    name: z.string(),
    parameters: count,
    maxModelLen: count,
    kvBytesPerToken: count,
    blockBytes: count,
    vocabSize: count,
  }),
  blockSize: count,
  engines: z.array(engineSchema),
  startMs: z.number(),
  link: z.strictObject({ name: z.string(), bytesPerSecond: z.number(), latencyMs: z.number() }).nullable(),
});

const statsSchema = z.strictObject({
  running: count,
  waiting: count,
  waitingForRemote: count,
  heldRequests: count,
  freeBlocks: count,
  usedBlocks: count,
  preemptions: count,
  prefixCache: z.strictObject({ queries: count, hits: count }).describe('Tokens.'),
});

export const storeFiguresSchema = z.strictObject({
  slots: count.describe('Capacity of its memory, in blocks.'),
  blockBytes: count,
  blocks: count.describe('Blocks in memory.'),
  lookups: count.describe('Blocks requested.'),
  hits: count.describe('Requested blocks that it had.'),
  stored: count,
  evicted: count,
  twoHopBytes: count.describe('Bytes that reached an engine by two hops where one was enough.'),
  queues: z.record(z.string(), count).nullable().describe("Blocks in each of the eviction policy's queues."),
  folder: z
    .strictObject({
      blocks: count,
      bytes: count,
      read: count,
      written: count,
      broken: count,
      expired: count,
      leftOut: count,
    })
    .nullable()
    .describe('null: memory only.'),
});

const moved = z.object({
  ...{ bytes: count, blocks: count, ms: z.number(), throttled: z.boolean() },
  tokens: count.optional(),
});

/** The part of a turn's report that the page shows. Not strict, so that recordings survive additions to the report. */
const recordedTurnSchema = z.object({
  ...turnSchema.pick({
    conversation_id: true,
    turn: true,
    prompt_tokens: true,
    local_hit_tokens: true,
    pulled_tokens: true,
    computed_tokens: true,
    no_pull_reason: true,
    output_tokens: true,
    output_token_ids: true,
    text: true,
    finish_reason: true,
    ttft_ms: true,
    tpot_ms: true,
    latency_ms: true,
    stages_ms: true,
  }).shape,
  transfer: z.object({
    p_to_d: moved,
    d_to_p: moved,
    store_to_p: moved.optional(),
    store_to_d: moved.optional(),
  }),
});

/** An event schema; every event has its time. */
const event = <Kind extends string, Fields extends z.core.$ZodLooseShape>(kind: Kind, fields: Fields) =>
  z.strictObject({ kind: z.literal(kind), atMs: z.number(), ...fields });
const transfer = {
  requestId: z.string().describe("The reader's request."),
  from: engineId,
  to: engineId,
  side: side.describe("The request's side: prefill pulls back, decode is the handover."),
};
const blockPairs = z.array(z.tuple([count, count])).describe('Block ids at the holder and at the reader.');
/** A turn's unique id. A retried turn has a new one. */
const turnId = z.string();

export const sessionEventSchema = z.discriminatedUnion('kind', [
  event('status', {
    phase: z.enum(['starting', 'ready', 'busy', 'failed']),
    message: z.string().describe('One sentence for users.'),
    progress: z.number().min(0).max(1).nullable().describe('null: unknown.'),
  }),
  event('settings', { settings: z.record(z.string(), z.unknown()) }),
  event('machine', { machine: machineSchema }),
  event('engine', { engineId, role, alive: z.boolean(), message: z.string().nullable() }),
  event('stats', { engineId, stats: statsSchema }),
  event('blocks', {
    engineId,
    numBlocks: count,
    changed: z.array(blockSchema).describe("Blocks that changed since the engine's last event."),
  }),
  event('turn_started', {
    turnId,
    conversation: z.string(),
    turn: count,
    mode,
    question: z.string(),
    edited: z.boolean().describe('The history was edited since the last turn.'),
    differsAt: count
      .exactOptional()
      .describe('Index of the first prompt token that differs from the one that the engines have KV of.'),
  }),
  event('token', { turnId, text: z.string(), tokens: count }),
  event('turn_ended', { turnId, result: recordedTurnSchema }),
  event('turn_failed', { turnId, message: z.string() }),
  event('conversation_resumed', {
    conversation: z.string(),
    turns: z
      .array(
        z.strictObject({
          turnId,
          turn: count,
          mode,
          question: z.string(),
          result: recordedTurnSchema,
        }),
      )
      .describe('Turns from before a reload.'),
  }),
  event('history_edited', { conversation: z.string(), from: z.string(), to: z.string() }),
  event('conversation_ended', { conversation: z.string() }),
  event('spans', { spans: z.array(spanSchema) }),
  event('transfer_started', {
    ...transfer,
    pairs: blockPairs,
    bytes: count.describe('Bytes to move.'),
    streamed: z.literal(true).exactOptional().describe('Its blocks come as they are computed, in chunks.'),
  }),
  event('transfer_chunk', {
    requestId: z.string(),
    pairs: blockPairs.describe('For a streamed transfer: the blocks that reached the slab.'),
  }),
  event('transfer_ended', {
    ...transfer,
    outcome: z.string().describe('done, declined, expired, refused, failed or dead.'),
    message: z.string(),
    bytes: count,
    blocks: count,
    ms: z.number(),
    movingMs: z
      .number()
      .exactOptional()
      .describe('For a streamed transfer: the part of ms in which bytes moved.'),
    stagesMs: z.record(z.string(), z.number()),
    throttled: z.boolean().describe('A modelled link slowed it down.'),
  }),
  event('store', { figures: storeFiguresSchema.nullable().describe('null: the store ended.') }),
  event('store_blocks', {
    tier: z.enum(['memory', 'folder']),
    numBlocks: count.describe('Highest block id: the possible one in memory, the used one in the folder.'),
    changed: z
      .array(blockSchema)
      .describe(
        'Changed blocks. States: cached (stored), held (being read), arriving (being written), free (gone).',
      ),
  }),
  event('slab', {
    engineId: engineId.describe("The holder's id; counts are over all its readers."),
    slotsInUse: count,
    slots: count,
    slotBytes: count,
  }),
  event('note', { level: z.enum(['info', 'warning']), message: z.string() }),
  event('race', { race: raceSchema.nullable() }),
  event('stall', { stall: stallSchema.nullable() }),
  event('crossover', { crossover: crossoverSchema.nullable() }),
]);

/** Version of the recording's layout; other versions are refused. */
export const RECORDING_VERSION = 2;

export const recordingSchema = z.strictObject({
  kvferryRecording: z.literal(RECORDING_VERSION, {
    error: ({ input }) => `found version ${input}, wanted ${RECORDING_VERSION}: record it again`,
  }),
  madeWith: z.string().describe('The program and its version.'),
  title: z.string(),
  events: z.array(sessionEventSchema).min(1, { error: 'at least one event' }),
});

/** A turn of a conversation that the page keeps across a reload. */
export type ResumedTurn = Extract<SessionEvent, { kind: 'conversation_resumed' }>['turns'][number];
export type RecordedTurn = z.infer<typeof recordedTurnSchema>;
export type Mode = z.infer<typeof mode>;
export type Role = z.infer<typeof role>;
export type BlockView = z.infer<typeof blockSchema>;
export type Machine = z.infer<typeof machineSchema>;
export type EngineStatsView = z.infer<typeof statsSchema>;
export type StoreFigures = z.infer<typeof storeFiguresSchema>;
export type SessionEvent = z.infer<typeof sessionEventSchema>;
export type Recording = z.infer<typeof recordingSchema>;
