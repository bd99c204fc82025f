/** Costs in a file: linear in what a step computes and reads. Calibration writes such files, and users may. */
import { z } from 'zod';
import { parseJson } from '../../config/fields.ts';
import { parseParameters } from '../../config/parameters.ts';
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

/** A longer time would fill memory with what happens meanwhile, such as heartbeats. */
const LONGEST_MS = 86_400_000;
const ms = z.number().nonnegative().max(LONGEST_MS);
const byBytes = z.strictObject({ fixed_ms: ms.default(0), ms_per_byte: ms.default(0) });
const medium = z
  .strictObject({
    read: byBytes.describe('For blocks that are requested at once, by their bytes in total.'),
    write: byBytes.nullable().default(null).describe('null: unknown, as reads.'),
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
  fixed_ms: ms.default(0).describe('For every step.'),
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
      'For a step of 1, 2, … requests with one row each and nothing else, without their context; replaces fixed_ms and ms_per_decode. Beyond the last entry, each request adds ms_per_decode. null: linear.',
    ),
  ms_by_rows: byRows
    .nullable()
    .default(null)
    .describe(
      '[rows, ms] of steps with prompts, by all rows of the step, without their context; replaces fixed_ms, ms_per_prefill_token and what decoding rows add. Interpolated between entries and constant before the first; beyond the last, each row adds ms_per_prefill_token. null: linear.',
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
        'For steps whose rows have on average `to` tokens before them, or more; the other speeds hold up to `from`, with interpolation in between. null: speeds do not depend on context.',
      ),
  })
  .describe(
    'For engines at prompts, as P is, and for engines that only decode, whatever their role: a row for 1, 2, … of them that compute, and in it an entry for 0, 1, … engines at the other work.',
  );
export type Speeds = z.infer<typeof speedsSchema>;
const anySpeeds = z.union([
  z.array(speed).min(1).describe('While 1, 2, … engines compute, whatever their work.'),
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
    .describe('The model that the times belong to, which is then the one that is simulated; null: any.'),
  about: z.string().default('').describe('What was timed, and by whom, in a sentence.'),
  max_num_batched_tokens: z
    .int()
    .positive()
    .nullable()
    .default(null)
    .describe(
      'Most rows in a step of the engines that the times come from; simulated engines use the same, unless --max-num-batched-tokens is given. null: unknown.',
    ),
  step: stepSchema.describe("From a step's plan to its outputs, milliseconds, on a machine of its own."),
  decode_step: stepSchema
    .nullable()
    .default(null)
    .describe('The same for D, whose driver may compute differently from P’s; null: as on P.'),
  read: byBytes
    .extend({
      beside_ms: ms.default(0).describe('Added while engines compute on a machine that all share.'),
      from_steps_ms: ms.default(0).describe('What a READ takes from each step on that machine.'),
      pull_from_steps_ms: ms
        .nullable()
        .default(null)
        .describe('The same where P pulls what D has; null: as any other READ.'),
    })
    .prefault({})
    .describe('A READ, apart from what a modelled link takes.'),
  store: z
    .strictObject({
      load: byBytes.describe('From a store to an engine.'),
      save: byBytes.describe("From an engine's offer until the store has read it."),
      folder: medium.describe("Between the store's folder and its memory; null: unknown, times are assumed."),
      server: medium.describe('The same for the server below it.'),
    })
    .nullable()
    .default(null)
    .describe('Apart from what a modelled link takes; null: unknown, as a READ between engines.'),
  submit_ms: ms.default(0).describe('From the router to an engine.'),
  reply_ms: ms
    .default(0)
    .describe("From an engine's step to the router; a token's own time is the end of its step."),
  message_ms: ms.default(0).describe('A message between engines.'),
  piece_ms: z
    .number()
    .positive()
    .nullable()
    .default(null)
    .describe('Work that a device takes at once, which copies wait for; null: copies wait for nothing.'),
  start_ms: ms.nullable().default(null).describe('Start-up time of a new engine; null: unknown.'),
  varies: z
    .strictObject({
      prompts: times,
      long_prompts: z
        .strictObject({ rows: z.int().positive(), times })
        .nullable()
        .default(null)
        .describe('For steps with more rows than these; null: as the others.'),
      decodes: times,
      reads: z
        .array(share)
        .min(1)
        .nullable()
        .default(null)
        .describe('The same for single READs between engines; null: they do not vary.'),
    })
    .nullable()
    .default(null)
    .describe(
      'Factors by which single steps differ from their time, with prompts and without, or lists of factors of consecutive steps. Each is equally likely, drawn by the seed. null: steps do not vary.',
    ),
  speeds: anySpeeds
    .nullable()
    .default(null)
    .describe(
      'Speed of an engine while several compute at once, as a share of its speed alone; more engines than there are numbers for share what the last number gives. null: each has its own machine.',
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
      `${file} is not a costs file: its kvferry_simulation_costs is ${JSON.stringify(version) ?? 'missing'}, wanted 1; create one with kvferry calibrate --costs-out FILE (--from-report fits a benchmark's report); ${wanted}`,
    );
  const place = (path: readonly PropertyKey[]) => (path.length === 0 ? file : `${path.join('.')} in ${file}`);
  return linearCosts(parseParameters(simulationCostsSchema, json, place));
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
    readContentionMs: read.beside_ms,
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
    readVaries: file.varies?.reads ?? null,
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

const stretches = (listed: z.infer<typeof times>): readonly Stretch[] =>
  listed.map((entry) => (typeof entry === 'number' ? [entry] : entry));

const mediumOf = ({ read, write }: NonNullable<z.infer<typeof medium>>) => {
  return { read: rateOf(read), write: write && rateOf(write) };
};

const rateOf = ({ fixed_ms: fixedMs, ms_per_byte: msPerByte }: z.infer<typeof byBytes>): ByBytes => {
  return { fixedMs, msPerByte };
};

/** Uses the nearest numbers that are known; more engines share what the last of them gives. */
function speedsOf(known: z.infer<typeof anySpeeds>): SpeedOf {
  return (work, { prefill, decode }, context) => {
    const all = prefill + decode;
    if (Array.isArray(known)) {
      const knownCount = Math.min(all, known.length);
      return (known[knownCount - 1]! * knownCount) / all;
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
  const ownKnown = Math.min(own, rows.length);
  const row = rows[ownKnown - 1]!;
  const othersKnown = Math.min(others, row.length - 1);
  return (row[othersKnown]! * (ownKnown + othersKnown)) / (own + others);
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

/** Time of the rows without their context. A step with prompts takes no less than its decoding requests alone. */
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

/** Interpolates between the points; constant before the first, with `slope` beyond the last. */
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
