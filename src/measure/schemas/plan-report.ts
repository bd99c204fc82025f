/**
 * The report of a plan, which `kvferry plan --json` writes. Like a simulation's report it does not depend on machine or time:
 * the same settings and seed give the same bytes.
 */
import { z } from 'zod';
import { PLACEMENTS } from '../../config/fleet-schema.ts';
import { MODES } from '../../config/modes.ts';
import { movingSchema, simulationReportSchema, VERDICTS } from './simulation-report.ts';

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
  threshold: count.nullable().describe("P's kv_recompute_threshold; null if nothing is pulled back."),
  store_bytes: count.nullable().describe('Store memory; null: no store.'),
  requests_per_second: perSecond.describe('Mean arrival rate.'),
  sample: count.describe('Requests simulated and counted, per seed.'),
  with_warm_up: count.describe(
    'The same, including the warm-up requests before the number of active conversations is steady.',
  ),
  counted: count.describe(
    'Requests that arrived after the warm-up, which is at least a fifth of the time; over all seeds.',
  ),
  due: z
    .number()
    .nonnegative()
    .describe(
      'Requests that would have arrived in that time if answers took no time: by the rate, or by the trace.',
    ),
  share: share.describe('Share of requests that met the SLO.'),
  low: share.describe('Lower end of its 95% interval, by batches of neighbouring requests.'),
  high: share,
  missed: z.strictObject({ ttft: count, tpot: count, failed: count }),
  ttft_ms: quantiles,
  tpot_ms: quantiles,
  wait_growth: z
    .number()
    .describe(
      'By how much TTFT grew over the counted time, as a share of that time: about the share of the load beyond what an overloaded fleet serves.',
    ),
  good_per_second: perSecond,
  counted_ms: z.number().describe('Time over which the counted requests arrived, over all seeds.'),
  verdict: z.enum(VERDICTS),
  busy: z.strictObject({ prefill: share, decode: share }).describe('Mean share of time spent in steps.'),
  met: z.boolean(),
});

const goodputSchema = z.strictObject({
  requests_per_second: perSecond.describe('The highest rate tried that meets the SLO.'),
  not_at: perSecond.nullable().describe('The lowest rate above it that does not.'),
  surely: perSecond.nullable().describe('The highest rate whose whole interval meets it.'),
  surely_not_at: perSecond.nullable().describe('The lowest rate whose whole interval misses it.'),
  tried: z.array(planRowSchema).describe('All rates, rising.'),
});

export const planReportSchema = z.strictObject({
  kvferry: z.string().describe("The program's version."),
  kind: z.literal('plan'),
  schema_version: z.literal(1),
  simulated: z.literal(true).describe('No engine ran: times come from a model.'),
  costs: simulationReportSchema.shape.costs,
  ...movingSchema.shape,
  model: z.string(),
  workload: z.strictObject({
    source: z.string(),
    scale: z.string(),
    requests: count.describe('Total requests in the workload.'),
    sample: count.describe('Requests from the beginning by which the last candidates were compared.'),
    own_rate: perSecond.nullable().describe("A trace's own requests per second."),
    sample_own_rate: perSecond.nullable().describe('The same for the sample.'),
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
    store: z.array(count.nullable()).describe('Bytes; null: no store.'),
    max_engines: count,
  }),
  engine: z.strictObject({ block_size: count, p_blocks: count, d_blocks: count }),
  seed: count,
  seeds: count,
  chosen: planRowSchema.nullable().describe('null: no fleet that was tried meets the SLO.'),
  goodput: goodputSchema.nullable().describe('For the chosen fleet, if the number of engines was given.'),
  closest: planRowSchema.nullable().describe('The closest fleet, if none meets the SLO.'),
  idle: planRowSchema.nullable().describe('The closest one with a fiftieth of the load.'),
  not_told_apart: z
    .array(planRowSchema)
    .describe('Fleets of the same size that are statistically no different from the chosen one.'),
  one_fewer: planRowSchema
    .nullable()
    .describe('The best fleet with one engine less than the chosen one; null: none was tried.'),
  front: z
    .array(planRowSchema)
    .describe(
      'The best fleet of each size, except those that a smaller one matches in every respect. Each row as it was simulated longest.',
    ),
  rounds: z.array(
    z.strictObject({ what: z.string(), sample: count, candidates: count, kept: count, times: count }),
  ),
  simulations: count,
  simulated_requests: count,
  notes: z.array(z.string()),
  fleet: z
    .strictObject({ rolesets: z.array(z.strictObject({ prefill: count, decode: count })) })
    .nullable()
    .describe('In the format of --fleet.'),
  commands: z.array(z.string()).describe('Commands that simulate, measure and export it.'),
});

export type PlanReport = z.infer<typeof planReportSchema>;
export type PlanRow = z.infer<typeof planRowSchema>;
