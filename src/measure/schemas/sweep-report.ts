/** The report of a sweep, which `kvferry sweep --json` writes. Times are milliseconds of the host's clock. */
import { z } from 'zod';
import { listed } from '../format.ts';
import { reportHead } from './report-head.ts';

const count = z.number().int().nonnegative();
const ms = z.number().nonnegative();

const timesSchema = z.strictObject({
  ttft_ms: z.array(ms).describe('One per round; entry i of pull and recompute is from round i.'),
  median: ms,
  p25: ms,
  p75: ms,
  computed_tokens: count.describe('Prompt rows that P dispatched.'),
});

const pointSchema = z.strictObject({
  context_tokens: count.describe('Tokens that D holds and P lacks: pulled or recomputed.'),
  prompt_tokens: count,
  pull: timesSchema
    .extend({
      pulled_tokens: count,
      bytes: count,
      blocks: count,
      descriptors: count.describe("Copies on D's device."),
      transfer_ms: ms.describe('Median, from posting the READ to the notification.'),
      gbps: z.number().nonnegative().nullable().describe('10^9 bytes per second, from the median.'),
    })
    .nullable()
    .describe('bidirectional; null if not requested.'),
  recompute: timesSchema.nullable().describe('unidirectional; null if not requested.'),
  monolithic: timesSchema.nullable().describe('One engine that kept the KV; null if not requested.'),
  winner: z
    .enum(['pull', 'recompute', 'neither'])
    .nullable()
    .describe(
      'By the 95% bootstrap interval of the ratio of medians over rounds (with one round: by 3%). neither if undecided; null unless both were measured.',
    ),
  rounds_won_by_pull: count.nullable(),
});

const crossoverSchema = z.union([
  z.strictObject({
    kind: z.literal('crosses'),
    tokens: z.number().describe('Pulling wins from this many tokens up.'),
    low: z
      .number()
      .nullable()
      .describe('95% interval; null: below the shortest measured context, or only one round.'),
    high: z.number().nullable().describe('null: above the longest measured context, or only one round.'),
  }),
  z.strictObject({
    kind: z.enum(['pull_always_wins', 'pull_always_loses']).describe('In the measured range.'),
  }),
]);

const seriesSchema = z.strictObject({
  link: z
    .strictObject({ name: z.string(), bytes_per_second: z.number(), latency_ms: z.number() })
    .nullable()
    .describe('The modelled link; null: as fast as this machine copies.'),
  throttled: z
    .boolean()
    .describe('Whether a modelled link slowed transfers, so that their times are not those of this machine.'),
  block_size: count,
  layout: z.enum(['contiguous', 'layer-pieces']),
  local_hit_tokens: count.describe('Leading prompt tokens that P finds in its own cache.'),
  points: z.array(pointSchema),
  crossover: crossoverSchema.nullable().describe('null unless pull and recompute were measured.'),
  best_total_ms: ms.nullable().describe('Sum over contexts of the better median.'),
  thresholds: z
    .array(
      z.strictObject({
        threshold: count.nullable().describe('null: never pull.'),
        total_ttft_ms: ms.describe('Sum over contexts of the medians that the rule chooses.'),
        regret_ms: ms.describe('total_ttft_ms minus best_total_ms.'),
      }),
    )
    .describe("vLLM's rule, applied to the measurements."),
});

export const sweepReportSchema = z.strictObject({
  ...reportHead('sweep'),
  complete: z.boolean().describe('false: interrupted; contains the results until then.'),
  model: z.strictObject({ name: z.string(), parameters: count, kv_bytes_per_token: count }),
  config: z
    .record(z.string(), z.unknown())
    .describe('All settings; lists if the sweep covered several values.'),
  rounds: count,
  new_tokens: count.describe('New user tokens, whose KV neither engine has.'),
  series: z.array(seriesSchema),
});

export type SweepReport = z.infer<typeof sweepReportSchema>;
export type SweepSeriesReport = z.infer<typeof seriesSchema>;
export type SweepPointReport = z.infer<typeof pointSchema>;

/** A series' settings in words, the same in every report of the same sweep. */
export function seriesName({ link, block_size, layout, local_hit_tokens }: SweepSeriesReport): string {
  const hit = local_hit_tokens > 0 ? `, ${local_hit_tokens} tokens hit on P` : '';
  return `${link ? link.name : 'no link'}, blocks of ${block_size}, ${layout}${hit}`;
}

type Crossing = Extract<NonNullable<SweepSeriesReport['crossover']>, { kind: 'crosses' }>;

/** The crossover, unless pulling surely wins at no length: then medians that cross say nothing. */
export function crossingOf({ crossover, points }: SweepSeriesReport): Crossing | null {
  return crossover?.kind === 'crosses' && points.some(({ winner }) => winner === 'pull') ? crossover : null;
}

/** Such as 'wins at 4 of 6 lengths and makes no difference at 2'; null: all lengths agree. */
export function mixedWinners(points: readonly SweepPointReport[]): string | null {
  const decided = points.filter(({ winner }) => winner !== null);
  const parts = (
    [
      ['pull', 'wins'],
      ['neither', 'makes no difference'],
      ['recompute', 'loses'],
    ] as const
  ).flatMap(([which, what]) => {
    const lengths = decided.filter(({ winner }) => winner === which).length;
    return lengths === 0 ? [] : [`${what} at ${lengths}`];
  });
  if (parts.length < 2) return null;
  const [first, ...others] = parts;
  return listed([`${first} of ${decided.length} lengths`, ...others]);
}

/** Whether pulling and recomputing tie at every length where both were measured. */
export function noWinner(points: readonly SweepPointReport[]): boolean {
  const decided = points.filter(({ winner }) => winner !== null);
  return decided.length > 0 && decided.every(({ winner }) => winner === 'neither');
}

const hasRounds = (points: readonly SweepPointReport[]): boolean =>
  points.some(({ pull }) => pull && pull.ttft_ms.length > 1);

/** Whether a crossover's interval covers all measured lengths, so that the rounds say nothing about where it is. */
export const crossesAnywhere = (
  points: readonly SweepPointReport[],
  { low, high }: { low: number | null; high: number | null },
): boolean => hasRounds(points) && low === null && high === null;

/** The uncertainty of a crossover: the caller's interval, or a remark if there was only one round. */
export const sureness = (points: readonly SweepPointReport[], interval: string): string =>
  hasRounds(points) ? interval : 'from one round, so without an interval';
