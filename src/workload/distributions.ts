/**
 * vLLM's distributions of lengths (benchmarks/multi_turn/bench_dataset.py), with its names and rules: a zod schema for
 * files, and draws of whole numbers.
 */
import { z } from 'zod';
import { sum } from '../sum.ts';
import type { Random } from './random.ts';

const number = (wanted: string) => z.number({ error: wanted });
const most = number('a number above 0').gt(0, { error: 'a number above 0' }).optional();

const constant = z.strictObject({
  distribution: z.literal('constant'),
  value: number('a number, 0 or more').min(0, { error: 'a number, 0 or more' }),
});
const uniform = z
  .strictObject({
    distribution: z.literal('uniform'),
    min: number('a number above 0').gt(0, { error: 'a number above 0' }),
    max: number('a number'),
  })
  .refine(({ min, max }) => min <= max, { error: 'a max that is not below min', path: ['max'] });
const lognormal = z
  .strictObject({
    distribution: z.literal('lognormal'),
    average: number('a number, 1 or more').min(1, { error: 'a number, 1 or more' }).optional(),
    median_ratio: number('a number between 0 and 1')
      .gt(0, { error: 'a number between 0 and 1' })
      .lt(1, { error: 'a number between 0 and 1' })
      .optional(),
    mean: number('a number above 0').gt(0, { error: 'a number above 0' }).optional(),
    sigma: number('a number, 0 or more').min(0, { error: 'a number, 0 or more' }).optional(),
    max: most,
  })
  .superRefine((value, context) => {
    const bySigma = value.mean !== undefined || value.sigma !== undefined;
    const hasBoth = value.mean !== undefined && value.sigma !== undefined;
    if (value.average === undefined ? !hasBoth : bySigma)
      context.addIssue({
        code: 'custom',
        message: 'either average (with median_ratio, default 0.85), or mean and sigma',
        input: value,
      });
    else if (value.average === undefined && value.median_ratio !== undefined)
      context.addIssue({ code: 'custom', message: 'median_ratio with average only', input: value });
  });
const zipf = z.strictObject({
  distribution: z.literal('zipf'),
  alpha: number('a number above 1').gt(1, { error: 'a number above 1' }),
  max: most,
});
const poisson = z.strictObject({
  distribution: z.literal('poisson'),
  alpha: number('a number above 0').gt(0, { error: 'a number above 0' }),
  max: most,
});

const DISTRIBUTIONS = ['constant', 'uniform', 'lognormal', 'zipf', 'poisson'] as const;

export const distributionSchema = z.discriminatedUnion(
  'distribution',
  [constant, uniform, lognormal, zipf, poisson],
  { error: `{"distribution": ...} with one of ${DISTRIBUTIONS.join(', ')}` },
);

export type Distribution = z.infer<typeof distributionSchema>;

/** vLLM's default of median_ratio, used with average. */
const MEDIAN_RATIO = 0.85;

/**
 * Draws `count` values at once. A lognormal with an average is scaled so that these values have that mean, as in vLLM.
 */
export function sample(distribution: Distribution, count: number, random: Random): number[] {
  const draw = (drawOne: () => number): number[] => Array.from({ length: count }, drawOne);
  switch (distribution.distribution) {
    case 'constant':
      return draw(() => Math.trunc(distribution.value));
    case 'uniform': {
      const { min, max } = distribution;
      if (Number.isInteger(min) && Number.isInteger(max)) return draw(() => random.int(min, max));
      return draw(() => Math.trunc(min + (max - min) * random.float()));
    }
    case 'zipf':
      return draw(() => capped(random.zipf(distribution.alpha), distribution.max));
    case 'poisson':
      return draw(() => capped(random.poisson(distribution.alpha), distribution.max));
    case 'lognormal': {
      const { average, max } = distribution;
      const { mu, sigma } = underlyingNormal(distribution);
      const drawn = draw(() => Math.exp(mu + sigma * random.normal()));
      const mean = sum(drawn) / count;
      const factor = average === undefined ? 1 : average / mean;
      return drawn.map((x) => Math.round(capped(x * factor, max)));
    }
  }
}

const capped = (x: number, max: number | undefined): number => (max === undefined ? x : Math.min(x, max));

/**
 * Parameters of the normal whose exponential it is: from mean and sigma, or from average and median / average =
 * exp(-sigma² / 2).
 */
export function underlyingNormal({
  average,
  median_ratio = MEDIAN_RATIO,
  mean,
  sigma,
}: Extract<Distribution, { distribution: 'lognormal' }>): { mu: number; sigma: number } {
  if (average === undefined) return { mu: mean!, sigma: sigma! };
  return { mu: Math.log(average * median_ratio), sigma: Math.sqrt(-2 * Math.log(median_ratio)) };
}

/** As vLLM prints it. */
export function describeDistribution(d: Distribution): string {
  const max = (value: number | undefined): string => (value === undefined ? '' : `, max ${value}`);
  switch (d.distribution) {
    case 'constant':
      return `constant ${d.value}`;
    case 'uniform':
      return `uniform ${d.min} to ${d.max}`;
    case 'zipf':
    case 'poisson':
      return `${d.distribution} alpha ${d.alpha}${max(d.max)}`;
    case 'lognormal':
      return d.average === undefined
        ? `lognormal mean ${d.mean}, sigma ${d.sigma}${max(d.max)}`
        : `lognormal average ${d.average}, median ratio ${d.median_ratio ?? MEDIAN_RATIO}${max(d.max)}`;
  }
}
