/** A load that a fleet cannot sustain is reported as overload, and is not simulated to its end. */
import { expect, it } from 'vitest';
import { promisesRun } from '../../src/cli/simulate/promises-run.ts';
import { noCosts } from '../../src/simulate/costs/published.ts';
import { poissonArrivals } from '../../src/simulate/load/load.ts';
import { outcomeOf } from '../../src/simulate/results/outcome.ts';
import { summarise } from '../../src/simulate/results/summary.ts';
import { type SimulationWorld, simulateOnce } from '../../src/simulate/run.ts';
import type { BenchConversation } from '../../src/workload/types.ts';
import { evenTrace, NOTHING_DRAWN } from './plan/planned.ts';
import { fleetOptions } from './simulated.ts';

const conversation: BenchConversation = {
  id: 'c',
  turns: [{ content: { kind: 'tokens', tokenIds: [8, 9] }, inputTokens: 2, outputTokens: 1 }],
};

const world: SimulationWorld = {
  costs: { ...noCosts, stepMs: () => 1000 },
  ...{ groups: [{ kind: 'full' }], blockBytes: 16_000, sharing: 'fcfs', check: false, runs: true },
  ...{ tokenIds: [8, 500], seed: 0, seeds: 1, slo: { ttftMs: null, tpotMs: null } },
  nextTask: promisesRun,
  signal: new AbortController().signal,
  onProgress() {},
};

it('a trace that arrives twice as fast as it is served is OVERLOADED, and half as fast is STABLE', async () => {
  const options = fleetOptions({ options: { mode: 'monolithic', maxNumSeqs: 1 } });
  const word = async (perSecond: number) => {
    const load = evenTrace(40, 1, 1).sample(40, perSecond, NOTHING_DRAWN);
    return outcomeOf(await simulateOnce({ label: 'arm', options, load }, world, 0)).verdict.word;
  };
  // A request takes a second.
  expect(await word(0.5)).toBe('STABLE');
  expect(await word(2)).toBe('OVERLOADED');
});

it('an overloaded run stops, reports when, and counts open requests as missing the SLO', async () => {
  const options = fleetOptions({ options: { mode: 'monolithic', maxNumSeqs: 1 } });
  const arrivals = (seed: number) => poissonArrivals([conversation], { perSecond: 1e6, count: 40_000, seed });
  const run = await simulateOnce(
    { label: 'arm', options, load: { kind: 'arrivals', arrivals, thinkMs: 0 } },
    // One request in ten is served at once, the others wait.
    { ...world, costs: { ...noCosts, stepMs: () => 0.01 } },
    0,
  );
  const arm = summarise({ label: 'arm', options }, [outcomeOf(run)], { ttftMs: 60_000, tpotMs: null });
  expect(arm.verdict).toMatchObject({ word: 'OVERLOADED', score: 1 });
  const { open, at_ms } = arm.stopped!;
  expect(open).toBeGreaterThan(10_000);
  expect(open).toBeLessThan(20_000);
  expect(at_ms).toBeLessThan(100);
  expect(arm.requests).toBeGreaterThan(100);
  const share = arm.requests / (arm.requests + open);
  expect(arm.goodput!.share).toBe(share);
  expect(arm.by_seed[0]!.good_share).toBe(share);
});
