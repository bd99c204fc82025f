/**
 * The report of a plan: what `kvferry plan --json` writes. As a simulation's it has nothing of the machine that made it or of
 * the time when: the same settings and seed give the same bytes.
 */
import { z } from 'zod';
import { PLACEMENTS } from '../config/fleet-schema.ts';
import { MODES } from '../config/modes.ts';
import { simulationReportSchema, VERDICTS } from './simulation-report.ts';

const count = z.number().int().nonnegative();
const share = z.number().min(0).max(1);
const perSecond = z.number().nonnegative();
const quantiles = z.strictObject({ p50: z.number(), p90: z.number() }).nullable();
const placement = z.enum(PLACEMENTS);

export const planRowSchema = z.strictObject({
  engines: count,
  prefill: count,
  decode: count,
  placement,
  rolesets: count.describe('All alike.'),
  routing: z.string(),
  mode: z.enum(MODES),
  threshold: count.nullable().describe("P's kv_recompute_threshold; null where nothing is pulled back."),
  store_bytes: count.nullable().describe('Memory of the store beside the engines; null: there is none.'),
  requests_per_second: perSecond.describe('That came, on average.'),
  sample: count.describe('Requests that were simulated to count, for each seed.'),
  with_warm_up: count.describe(
    'The same, with those before them, until as many conversations were there as will be.',
  ),
  counted: count.describe('Those that came after the warm-up, a fifth of the time at least, over all seeds.'),
  due: z
    .number()
    .nonnegative()
    .describe('That would have come in that time if no answer took any: by the rate, or as a trace says.'),
  share: share.describe('That kept the SLO.'),
  low: share.describe('Of its 95% interval, by batches of neighbouring requests.'),
  high: share,
  missed: z.strictObject({ ttft: count, tpot: count, failed: count }),
  ttft_ms: quantiles,
  tpot_ms: quantiles,
  good_per_second: perSecond,
  counted_ms: z.number().describe('How long those that count came for, over all seeds.'),
  verdict: z.enum(VERDICTS),
  busy: z.strictObject({ prefill: share, decode: share }).describe('Of the time, in steps, on average.'),
  met: z.boolean(),
});

const goodputSchema = z.strictObject({
  requests_per_second: perSecond.describe('The highest rate that was tried and kept the SLO.'),
  not_at: perSecond.nullable().describe('The lowest rate above it that did not.'),
  surely: perSecond.nullable().describe('The highest rate whose whole interval keeps it.'),
  surely_not_at: perSecond.nullable().describe('The lowest rate whose whole interval misses it.'),
  tried: z.array(planRowSchema).describe('All rates, rising.'),
});

export const planReportSchema = z.strictObject({
  kvferry: z.string().describe("The program's version."),
  kind: z.literal('plan'),
  schema_version: z.literal(1),
  simulated: z.literal(true).describe('No engine ran: times are a model.'),
  costs: simulationReportSchema.shape.costs,
  model: z.string(),
  workload: z.strictObject({
    source: z.string(),
    scale: z.string(),
    requests: count.describe('There are.'),
    sample: count.describe('The longest simulations took the first so many.'),
    own_rate: perSecond.nullable().describe('Requests a second that a trace has of itself.'),
    sample_own_rate: perSecond.nullable().describe('The same of the sample.'),
  }),
  goal: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('fewest'), requests_per_second: perSecond }),
    z.strictObject({ kind: z.literal('goodput'), engines: count }),
  ]),
  slo: z.strictObject({ ttft_ms: z.number().nullable(), tpot_ms: z.number().nullable(), attainment: share }),
  searched: z.strictObject({
    routing: z.array(z.string()),
    mode: z.array(z.enum(MODES)),
    threshold: z.array(count),
    placement: z.array(placement),
    store: z.array(count.nullable()).describe('Bytes; null: without a store.'),
    max_engines: count,
  }),
  engine: z.strictObject({ block_size: count, p_blocks: count, d_blocks: count }),
  seed: count,
  seeds: count,
  chosen: planRowSchema.nullable().describe('null: nothing that was tried keeps the SLO.'),
  goodput: goodputSchema.nullable().describe('Of the chosen fleet, where the number of engines was given.'),
  closest: planRowSchema.nullable().describe('Where nothing keeps the SLO.'),
  idle: planRowSchema.nullable().describe('The closest one with a fiftieth of the load.'),
  not_told_apart: z.array(planRowSchema).describe('From the chosen one, of as many engines.'),
  one_fewer: planRowSchema
    .nullable()
    .describe("The best of one engine less than the chosen one's; null: none was tried."),
  front: z
    .array(planRowSchema)
    .describe('The best of each number of engines, but for those that fewer engines beat in every respect.'),
  rounds: z.array(
    z.strictObject({ what: z.string(), sample: count, candidates: count, kept: count, times: count }),
  ),
  simulations: count,
  simulated_requests: count,
  notes: z.array(z.string()),
  fleet: z
    .strictObject({ rolesets: z.array(z.strictObject({ prefill: count, decode: count })) })
    .nullable()
    .describe('As --fleet takes it.'),
  commands: z.array(z.string()).describe('What simulates, measures and exports it.'),
});

export type PlanReport = z.infer<typeof planReportSchema>;
export type PlanRow = z.infer<typeof planRowSchema>;
