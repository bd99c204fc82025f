/** What a plan says about its certainty. */
import { expect, it } from 'vitest';
import { answerOf, certaintyOf } from '../../src/cli/plan/words.ts';
import type { PlanReport } from '../../src/measure/schemas/plan-report.ts';

const planOf = (
  chosen: { counted: number; counted_ms: number; due?: number; low?: number; sample?: number },
  ownRate: number | null = null,
) =>
  ({
    chosen: {
      ...{ verdict: 'STABLE', low: 0.95, engines: 3, requests_per_second: 5, due: 500, wait_growth: 0 },
      ...chosen,
    },
    ...{ front: [], one_fewer: null, not_told_apart: [], goodput: null, seeds: 1 },
    workload: { own_rate: ownRate },
    goal: { kind: 'fewest', requests_per_second: 5 },
    slo: { attainment: 0.9, ttft_ms: 500, tpot_ms: null },
  }) as unknown as PlanReport;

it('a plan says so if fewer requests came than were asked for, and only then', () => {
  expect(certaintyOf(planOf({ counted: 460, counted_ms: 100_000 }))).toEqual([
    'The whole interval meets the requirement.',
  ]);
  expect(certaintyOf(planOf({ counted: 440, counted_ms: 100_000 }))).toEqual([
    'The whole interval meets the requirement.',
    expect.stringMatching(/^Only 4.4 of 5 requests per second arrived in the counted time.* longer --sample/),
  ]);
});

it('a plan says so if the sampled part of a trace is slower than the trace', () => {
  expect(certaintyOf(planOf({ counted: 200, due: 200, counted_ms: 100_000 }, 5))).toEqual([
    'The whole interval meets the requirement.',
    expect.stringMatching(/^Only 2 of 5 requests per second arrived .*: this part of the trace is slower/),
  ]);
});

it('an uncertain plan advises a larger fleet that is surely enough if it was simulated as long, or a longer --sample', () => {
  const unsure = planOf({ counted: 460, counted_ms: 100_000, low: 0.85, sample: 800 });
  const larger = { engines: 4, prefill: 3, decode: 1, low: 0.92, high: 0.99, sample: 800 };
  const said = (front: object[]) => certaintyOf({ ...unsure, front } as PlanReport);
  expect(said([larger])).toEqual([
    expect.stringContaining('with 3 P + 1 D the whole interval meets it (92.0% to 99.0%).'),
  ]);
  for (const front of [[], [{ ...larger, sample: 100 }]])
    expect(said(front)).toEqual([expect.stringContaining('A longer --sample would narrow it.')]);
});

it('a plan says that an engine fewer is overloaded, though it meets the limits that there are, and that TTFT grew', () => {
  const fewer = { engines: 2, prefill: 1, decode: 1, met: false, share: 1, low: 0.99, high: 1 };
  const plan = planOf({ counted: 460, counted_ms: 100_000 });
  const said = (of: object, growth: number) =>
    certaintyOf({
      ...plan,
      chosen: { ...plan.chosen!, wait_growth: growth },
      one_fewer: { ...fewer, ...of },
    } as PlanReport).slice(1);
  expect(said({ verdict: 'OVERLOADED' }, 0)).toEqual([
    'With 2 engines requests arrive faster than they are served (1 P + 1 D: OVERLOADED).',
  ]);
  expect(said({ verdict: 'STABLE', wait_growth: 0.031 }, 0)).toEqual([
    'With 2 engines requests arrive faster than they are served (1 P + 1 D: TTFT grew by 3.1% of the time).',
  ]);
  expect(said({ share: 0.88, low: 0.8, high: 0.95 }, 0.024)).toEqual([
    'Whether 2 engines would do is uncertain: 88.0%, 80.0% to 95.0% (1 P + 1 D).',
    expect.stringMatching(/^TTFT grew by 2.4% of the time/),
  ]);
});

it('a plan advises a longer trace instead of a longer --sample if all of it was simulated', () => {
  const said = (simulated: number) => {
    const plan = planOf({ counted: 440, counted_ms: 4000, low: 0.85 }, 5);
    const chosen = { ...plan.chosen!, with_warm_up: simulated, verdict: 'BACKLOGGED' };
    return certaintyOf({ ...plan, chosen, workload: { own_rate: 5, requests: 800 } } as PlanReport).map(
      (each) => / longer (--sample|trace)/.exec(each)![1],
    );
  };
  expect(said(799)).toEqual(['--sample', '--sample', '--sample', '--sample']);
  expect(said(800)).toEqual(['trace', 'trace', 'trace', 'trace']);
});

it('a plan without a fleet says so if more requests failed than missed either limit', () => {
  const row = (met: boolean, failed: number) => ({
    ...{ prefill: 1, decode: 1, rolesets: 1, routing: 'mooncake', mode: 'unidirectional', threshold: null },
    ...{ placement: 'pooled', store_bytes: null, requests_per_second: 5, share: 0.5, met, counted: 160 },
    ...{ verdict: 'STABLE', missed: { ttft: 20, tpot: 0, failed }, ttft_ms: null, tpot_ms: null },
  });
  const answer = (closest: object, idle: object) =>
    answerOf({
      ...planOf({ counted: 1, counted_ms: 1 }),
      ...{ chosen: null, closest, idle },
      searched: {},
    } as PlanReport);
  const said = '60 of 160 requests failed: kvferry simulate with this fleet lists the errors.';
  expect(answer(row(false, 60), row(true, 0))).toContain(said);
  expect(answer(row(false, 0), row(false, 60))).toContain(said);
  expect(answer(row(false, 10), row(true, 0))).not.toContain('failed');
});

it('a plan without a fleet says so if the closest one meets the limits that there are and its queue grows', () => {
  const closest = {
    ...{ prefill: 1, decode: 2, rolesets: 1, routing: 'llm-d', mode: 'unidirectional', threshold: null },
    ...{ placement: 'pooled', store_bytes: null, requests_per_second: 5, share: 1, met: false, counted: 160 },
    ...{ verdict: 'STABLE', wait_growth: 0.27, missed: { ttft: 0, tpot: 0, failed: 0 } },
    ...{ ttft_ms: null, tpot_ms: null },
  };
  const plan = { ...planOf({ counted: 1, counted_ms: 1 }), chosen: null, closest, idle: null, searched: {} };
  expect(answerOf({ ...plan, slo: { attainment: 0.9, ttft_ms: null, tpot_ms: 50 } } as PlanReport)).toContain(
    'Enough requests meet it, but they arrive faster than they are served (TTFT grew by 27.0% of the time); raise',
  );
});

it('a best rate says why the next one is not sustained, if enough requests met the SLO there', () => {
  const plan = planOf({ counted: 460, counted_ms: 100_000 });
  const goal = { kind: 'goodput', engines: 3 };
  const said = (above: object) => {
    const tried = [{ requests_per_second: 6, counted_ms: 100_000, due: 600, counted: 590, ...above }];
    const goodput = { requests_per_second: 5, surely: 5, surely_not_at: null, not_at: 6, tried };
    return certaintyOf({ ...plan, goal, goodput } as unknown as PlanReport).slice(1);
  };
  expect(said({ share: 0.5 })).toEqual([]);
  expect(said({ share: 1 })).toEqual([expect.stringContaining('arrive faster than they are served')]);
  expect(said({ share: 1, counted: 500 })).toEqual([expect.stringContaining('only 5 per second arrived')]);
});
