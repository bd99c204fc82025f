/** What a plan says about its certainty. */
import { expect, it } from 'vitest';
import { certaintyOf } from '../../src/cli/plan/words.ts';
import type { PlanReport } from '../../src/measure/schemas/plan-report.ts';

const planOf = (
  chosen: { counted: number; counted_ms: number; due?: number; low?: number },
  ownRate: number | null = null,
) =>
  ({
    chosen: { ...{ verdict: 'STABLE', low: 0.95, engines: 3, requests_per_second: 5, due: 500 }, ...chosen },
    ...{ front: [], one_fewer: null, not_told_apart: [], goodput: null, seeds: 1 },
    workload: { own_rate: ownRate },
    goal: { kind: 'fewest', requests_per_second: 5 },
    slo: { attainment: 0.9, ttft_ms: 500, tpot_ms: null },
  }) as unknown as PlanReport;

it('a plan says so if fewer requests came than were asked for, and only then', () => {
  expect(certaintyOf(planOf({ counted: 430, counted_ms: 100_000 }))).toEqual([
    'The whole interval meets the requirement.',
  ]);
  expect(certaintyOf(planOf({ counted: 200, counted_ms: 100_000 }))).toEqual([
    'The whole interval meets the requirement.',
    expect.stringMatching(/^Only 2 of 5 requests per second arrived in the counted time.* longer --sample/),
  ]);
});

it('a plan says so if the sampled part of a trace is slower than the trace', () => {
  expect(certaintyOf(planOf({ counted: 200, due: 200, counted_ms: 100_000 }, 5))).toEqual([
    'The whole interval meets the requirement.',
    expect.stringMatching(/^Only 2 of 5 requests per second arrived .*: this part of the trace is slower/),
  ]);
});

it('an uncertain plan advises a longer --sample, or --seeds unless it is for a trace', () => {
  const unsure = { counted: 430, counted_ms: 100_000, low: 0.85 };
  expect(certaintyOf(planOf(unsure))).toEqual([
    expect.stringContaining('A longer --sample or more --seeds would narrow it.'),
  ]);
  expect(certaintyOf(planOf(unsure, 5))).toEqual([
    expect.stringContaining('A longer --sample would narrow it.'),
  ]);
});
