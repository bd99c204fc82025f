/** The page's measurements besides the conversation, also while they run. Times are milliseconds. */
import { z } from 'zod';

const count = z.number().int().nonnegative();

const laneSchema = z.strictObject({
  phase: z.enum(['waiting', 'preparing', 'running', 'done']),
  startedMs: z.number().nullable().describe('Start of the measured turn.'),
  ttftMs: z.number().nullable().describe('Median of the runs.'),
  runsMs: z.array(z.number()).exactOptional().describe('Each run so far; omitted: a single run.'),
  stagesMs: z.record(z.string(), z.number()),
  pulledTokens: count,
  computedTokens: count,
  bytesPulled: count,
  answer: z.string(),
});

export const raceSchema = z.strictObject({
  question: z.string(),
  historyTokens: count.describe('Tokens before the measured turn; D has generated or read them all.'),
  recompute: laneSchema,
  pull: laneSchema,
  error: z.string().nullable(),
});

const stallRunSchema = z.strictObject({
  tokensMs: z
    .array(z.number())
    .describe("Times of the first user's tokens, from the paste; negative before it."),
  pastedFirstMs: z.number().describe("Time of the second user's first token, from the paste."),
});

const stallSideSchema = z.strictObject({
  phase: z.enum(['waiting', 'running', 'done']),
  runs: z.array(stallRunSchema),
  pieces: z.array(z.string()).describe("The first user's answer, token by token."),
});

export const stallSchema = z.strictObject({
  startedMs: z.number(),
  question: z.string().describe("The first user's question."),
  pastedTokens: count.describe("Tokens of the second user's prompt; 0 while unknown."),
  alone: stallSideSchema.describe('One engine reads and writes.'),
  split: stallSideSchema.describe('P reads, D writes.'),
  error: z.string().nullable(),
});

const pointSchema = z.strictObject({
  tokens: count.describe('Tokens that D has and P lacks, which are pulled or computed again.'),
  pullMs: z.number().nullable(),
  recomputeMs: z.number().nullable(),
});

export const crossoverSchema = z.strictObject({
  points: z.array(pointSchema).describe('By ascending tokens. Points are filled in while the sweep runs.'),
  done: count.describe('Measurements made.'),
  total: count,
  crossoverTokens: z.number().nullable().describe('Where the two lines cross; null if they do not.'),
  link: z
    .string()
    .nullable()
    .exactOptional()
    .describe('The modelled link between D and P; null: none; omitted: unknown.'),
  running: z.boolean(),
  error: z.string().nullable(),
});

export type RaceLane = z.infer<typeof laneSchema>;
export type Race = z.infer<typeof raceSchema>;
export type StallRun = z.infer<typeof stallRunSchema>;
export type StallSide = z.infer<typeof stallSideSchema>;
export type Stall = z.infer<typeof stallSchema>;
export type Crossover = z.infer<typeof crossoverSchema>;
