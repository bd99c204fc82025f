import { describe, expect, it } from 'vitest';
import { certaintyOf } from '../../src/cli/plan/words.ts';
import type { PlanReport, PlanRow } from '../../src/measure/plan-report.ts';

/** What a plan says of 400 requests that came within so long, 20 a second having been asked for. */
function saidOf(countedMs: number): string {
  const chosen = {
    ...{ engines: 2, prefill: 1, decode: 1, placement: 'pooled', rolesets: 1, routing: 'round-robin' },
    ...{ mode: 'bidirectional', threshold: 64, store_bytes: null, requests_per_second: 20 },
    ...{ sample: 500, with_warm_up: 4000, counted: 400, counted_ms: countedMs },
    ...{ share: 1, low: 0.99, high: 1, missed: { ttft: 0, tpot: 0, failed: 0 } },
    ...{ ttft_ms: null, tpot_ms: null, good_per_second: 20, verdict: 'STABLE' },
    ...{ busy: { prefill: 0.5, decode: 0.5 }, met: true },
  } as PlanRow;
  const report: Partial<PlanReport> = {
    ...{ chosen, front: [chosen], not_told_apart: [], seeds: 1 },
    slo: { ttft_ms: 500, tpot_ms: 50, attainment: 0.9 },
    goal: { kind: 'fewest', requests_per_second: 20, engines: null } as PlanReport['goal'],
  };
  return certaintyOf(report as PlanReport).join(' ');
}

describe('a plan in words', () => {
  it('says that the load was not all there where fewer requests came than were asked for', () => {
    expect(saidOf(50_000)).toContain('The load was not all there: 8 of 20 requests a second came');
  });

  it('says nothing of it where they came, but for chance', () => {
    expect(saidOf(20_000)).not.toContain('not all there');
    expect(saidOf(22_000)).not.toContain('not all there');
  });
});
