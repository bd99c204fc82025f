/** Costs as a file has them: linear in what a step computes and reads. What calibration writes, and users may write. */
import { z } from 'zod';
import { parseJson } from '../../config/fields.ts';
import { ConfigError } from '../../errors.ts';
import {
  type ByBytes,
  type SimulationCosts,
  SOURCES,
  type SpeedOf,
  type StepShape,
  type Stretch,
  type Varies,
} from './types.ts';

/** What takes longer fills memory with what goes on meanwhile, such as heartbeats. */
const LONGEST_MS = 86_400_000;
const ms = z.number().nonnegative().max(LONGEST_MS);
const byBytes = z.strictObject({ fixed_ms: ms.default(0), ms_per_byte: ms.default(0) });
const medium = z
  .strictObject({
    read: byBytes.describe('Of blocks that are asked for at once, by the bytes of all.'),
    write: byBytes.nullable().default(null).describe('null: nothing is known of it.'),
  })
  .nullable()
  .default(null);

const byRows = z
  .array(z.tuple([z.int().positive(), ms]))
  .min(1)
  .refine((points) => points.every(([rows], i) => i === 0 || rows > points[i - 1]![0]), {
    error: 'numbers of rows must grow',
  });

const stepSchema = z.strictObject({
  fixed_ms: ms.default(0).describe('Of every step.'),
  ms_per_prefill: ms.default(0).describe('For each request with several rows.'),
  ms_per_prefill_token: ms.default(0),
  ms_per_prefill_context: ms.default(0).describe('For each of these rows and each token before it.'),
  ms_per_decode: ms.default(0).describe('For each request with one row.'),
  ms_per_decode_context: ms.default(0).describe('For each token before such a row.'),
  ms_per_decode_beside_prompts: ms
    .default(0)
    .describe('For each request with one row in a step with prompts, beyond its row.'),
  ms_by_decodes: z
    .array(ms)
    .min(1)
    .nullable()
    .default(null)
    .describe(
      'Of a step of 1, 2, … requests with one row each and of nothing else, without their context, in place of fixed_ms and ms_per_decode; beyond the last ms_per_decode more for each. null: linear.',
    ),
  ms_by_rows: byRows
    .nullable()
    .default(null)
    .describe(
      '[rows, ms] of steps with prompts, by all rows of the step, without their context, in place of fixed_ms, ms_per_prefill_token and what decoding adds; in proportion between two, before the first as the first, beyond the last ms_per_prefill_token more for each. null: linear.',
    ),
});

const share = z.number().positive();
const times = z.array(z.union([share, z.array(share).min(1)])).min(1);
const speed = z.number().positive().max(1);
const byOthers = z.array(z.array(speed).min(1)).min(1);
const byWork = { prefill: byOthers, decode: byOthers };
const tokens = z.number().nonnegative();
const speedsSchema = z
  .strictObject({
    ...byWork,
    far: z
      .strictObject({ from: tokens, to: tokens, ...byWork })
      .refine(({ from, to }) => from < to, { error: 'from must be less than to' })
      .nullable()
      .default(null)
      .describe(
        'Those of steps whose rows have `to` tokens before them on average, or more; in proportion between these and the others, which are so up to `from`. null: all alike.',
      ),
  })
  .describe(
    'Of engines at prompts, as P is, and of such as only decode, whatever their role: a row for 1, 2, … of them that compute, in each for 0, 1, … at the other work.',
  );
export type Speeds = z.infer<typeof speedsSchema>;
const anySpeeds = z.union([
  z.array(speed).min(1).describe('While 1, 2, … engines compute, whichever.'),
  speedsSchema,
]);

export const simulationCostsSchema = z.strictObject({
  kvferry_simulation_costs: z.literal(1).describe('Version of this format.'),
  name: z.string().min(1),
  source: z.enum(SOURCES).describe('Where the times come from.'),
  model: z
    .string()
    .nullable()
    .default(null)
    .describe('The model that the times are of, which is then the one that is simulated; null: any.'),
  about: z.string().default('').describe('Whose times, of what, in a sentence.'),
  max_num_batched_tokens: z
    .int()
    .positive()
    .nullable()
    .default(null)
    .describe(
      'Rows that a step computes at most on the engines that the times are of; simulated ones do likewise, unless --max-num-batched-tokens says otherwise. null: nothing is known of it.',
    ),
  step: stepSchema.describe("From a step's plan to its outputs, milliseconds, on a machine of its own."),
  decode_step: stepSchema
    .nullable()
    .default(null)
    .describe('The same on D, whose driver may compute otherwise than P’s; null: as on P.'),
  read: byBytes
    .extend({
      beside_ms: ms.default(0).describe('More, while engines compute on the machine that all share.'),
      from_steps_ms: ms.default(0).describe('What it takes from each step on that machine.'),
      pull_from_steps_ms: ms
        .nullable()
        .default(null)
        .describe('The same where P pulls what D has; null: as any other.'),
    })
    .prefault({})
    .describe('A READ, beside what a modelled link takes.'),
  store: z
    .strictObject({
      load: byBytes.describe('From a store to an engine.'),
      save: byBytes.describe('From the offer of an engine until the store has read it.'),
      folder: medium.describe("Between the store's folder and its memory; null: nothing is known of it."),
      server: medium.describe('The same of the server below it.'),
    })
    .nullable()
    .default(null)
    .describe('Beside what a modelled link takes; null: nothing is known of it.'),
  submit_ms: ms.default(0).describe('From the router to an engine.'),
  reply_ms: ms.default(0).describe("From an engine's step to the router, beside what the token's time says."),
  message_ms: ms.default(0).describe('Between engines.'),
  piece_ms: z
    .number()
    .positive()
    .nullable()
    .default(null)
    .describe('Work that a device takes at once, which copies wait for; null: they wait for nothing.'),
  start_ms: ms.nullable().default(null).describe('Until a new engine serves; null: nothing is known of it.'),
  varies: z
    .strictObject({
      prompts: times,
      long_prompts: z
        .strictObject({ rows: z.int().positive(), times })
        .nullable()
        .default(null)
        .describe('Of steps with more rows than these; null: as the others.'),
      decodes: times,
    })
    .nullable()
    .default(null)
    .describe(
      'How many times its time a step with prompts takes, and one without; or lists of what steps took that followed each other. Each is as likely as the others, drawn by the seed. null: always its time.',
    ),
  speeds: anySpeeds
    .nullable()
    .default(null)
    .describe(
      'Speed of an engine while so many compute at once, as a share of one alone; more than there are numbers for share what the last ones had. null: each has its own machine.',
    ),
});

export type SimulationCostsFile = z.infer<typeof simulationCostsSchema>;

/** Throws ConfigError that names `file`. */
export function parseSimulationCosts(text: string, file: string): SimulationCosts {
  const wanted =
    'wanted costs, such as {"kvferry_simulation_costs":1,"name":"mine","source":"assumed","step":{"fixed_ms":5}}';
  const json = parseJson(text, file, wanted);
  const version = (json as { kvferry_simulation_costs?: unknown } | null)?.kvferry_simulation_costs;
  if (version !== 1)
    throw new ConfigError(
      `${file} is no file of costs: its kvferry_simulation_costs is ${JSON.stringify(version) ?? 'missing'} and should be 1; kvferry calibrate --costs-out FILE writes one (of a benchmark's report with --from-report), or ${wanted}`,
    );
  const result = simulationCostsSchema.safeParse(json);
  if (result.success) return linearCosts(result.data);
  const { path, message } = result.error.issues[0]!;
  throw new ConfigError(`${file} holds no costs: ${path.join('.') || 'it'}: ${message}; ${wanted}`);
}

export function linearCosts({
  name,
  source,
  model,
  about,
  step,
  decode_step,
  read,
  store,
  ...file
}: SimulationCostsFile): SimulationCosts {
  return {
    ...{ name, source, model, about },
    maxNumBatchedTokens: file.max_num_batched_tokens,
    stepMs: (shape, { role }) => stepMs((role === 'decode' && decode_step) || step, shape),
    readMs: (bytes) => msOf(read, bytes),
    readBesideMs: read.beside_ms,
    readFromStepsMs: read.from_steps_ms,
    pullFromStepsMs: read.pull_from_steps_ms ?? read.from_steps_ms,
    store: store && {
      loadMs: (bytes) => msOf(store.load, bytes),
      saveMs: (bytes) => msOf(store.save, bytes),
      folder: store.folder && mediumOf(store.folder),
      server: store.server && mediumOf(store.server),
    },
    submitMs: file.submit_ms,
    replyMs: file.reply_ms,
    messageMs: file.message_ms,
    pieceMs: file.piece_ms,
    startMs: file.start_ms,
    varies: file.varies && variesOf(file.varies),
    speeds: file.speeds && speedsOf(file.speeds),
  };
}

const variesOf = ({ prompts, long_prompts, decodes }: NonNullable<SimulationCostsFile['varies']>): Varies => {
  const [few, decoding] = [stretches(prompts), stretches(decodes)];
  const long = long_prompts ? { rows: long_prompts.rows, times: stretches(long_prompts.times) } : null;
  return ({ decodes: single, prefills, prefillTokens }) => {
    if (prefills === 0) return decoding;
    return long && single + prefillTokens > long.rows ? long.times : few;
  };
};

const stretches = (given: z.infer<typeof times>): readonly Stretch[] =>
  given.map((each) => (typeof each === 'number' ? [each] : each));

const mediumOf = ({ read, write }: NonNullable<z.infer<typeof medium>>) => {
  return { read: rateOf(read), write: write && rateOf(write) };
};

const rateOf = ({ fixed_ms: fixedMs, ms_per_byte: msPerByte }: z.infer<typeof byBytes>): ByBytes => {
  return { fixedMs, msPerByte };
};

/** By the numbers that come nearest, and of these what is left for so many more. */
function speedsOf(known: z.infer<typeof anySpeeds>): SpeedOf {
  return (work, { prefill, decode }, context) => {
    const all = prefill + decode;
    if (Array.isArray(known)) {
      const told = Math.min(all, known.length);
      return (known[told - 1]! * told) / all;
    }
    const [own, others] = work === 'prefill' ? [prefill, decode] : [decode, prefill];
    const near = speedIn(known[work], own, others);
    const { far } = known;
    if (!far || context <= far.from) return near;
    const share = Math.min(1, (context - far.from) / (far.to - far.from));
    return near + share * (speedIn(far[work], own, others) - near);
  };
}

function speedIn(rows: z.infer<typeof byOthers>, own: number, others: number): number {
  const ownTold = Math.min(own, rows.length);
  const row = rows[ownTold - 1]!;
  const othersTold = Math.min(others, row.length - 1);
  return (row[othersTold]! * (ownTold + othersTold)) / (own + others);
}

type StepCosts = z.infer<typeof stepSchema>;

export function stepMs(costs: StepCosts, shape: StepShape): number {
  const { decodes, decodeContext, prefills, prefillContext } = shape;
  return (
    rowsMs(costs, shape) +
    (prefills > 0 ? costs.ms_per_decode_beside_prompts * decodes : 0) +
    costs.ms_per_prefill * prefills +
    costs.ms_per_prefill_context * prefillContext +
    costs.ms_per_decode_context * decodeContext
  );
}

/** Without their context. Beside rows of prompts a step takes no less than without any of these. */
function rowsMs(costs: StepCosts, { decodes, prefills, prefillTokens }: StepShape): number {
  const { fixed_ms, ms_by_rows, ms_per_prefill_token } = costs;
  const decodingMs = decodes === 0 ? 0 : decodesMs(costs, decodes);
  if (prefills === 0) return decodes === 0 ? fixed_ms : decodingMs;
  if (ms_by_rows)
    return Math.max(decodingMs, between(ms_by_rows, prefillTokens + decodes, ms_per_prefill_token));
  return Math.max(fixed_ms, decodingMs) + ms_per_prefill_token * prefillTokens;
}

function decodesMs({ fixed_ms, ms_per_decode, ms_by_decodes }: StepCosts, decodes: number): number {
  if (!ms_by_decodes) return fixed_ms + ms_per_decode * decodes;
  const last = Math.min(decodes, ms_by_decodes.length);
  return ms_by_decodes[last - 1]! + ms_per_decode * (decodes - last);
}

/** On the way through those points; `slope` beyond the last. */
export function between(
  points: readonly (readonly [rows: number, ms: number])[],
  rows: number,
  slope: number,
): number {
  const next = points.findIndex(([to]) => rows <= to);
  if (next === 0) return points[0]![1];
  const [last, lastMs] = points.at(next === -1 ? -1 : next - 1)!;
  if (next === -1) return lastMs + slope * (rows - last);
  const [to, toMs] = points[next]!;
  return lastMs + ((toMs - lastMs) * (rows - last)) / (to - last);
}

const msOf = ({ fixed_ms, ms_per_byte }: z.infer<typeof byBytes>, bytes: number): number =>
  bytes > 0 ? fixed_ms + ms_per_byte * bytes : 0;
