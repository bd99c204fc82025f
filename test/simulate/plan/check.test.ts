/** Searches whose short simulations say something else than the long ones by which the answer is checked. */
import { describe, expect, it } from 'vitest';
import type { Candidate } from '../../../src/simulate/plan/candidate.ts';
import { fewestEngines } from '../../../src/simulate/plan/fewest.ts';
import { bestGoodput } from '../../../src/simulate/plan/goodput.ts';
import { halve } from '../../../src/simulate/plan/halving.ts';
import type { Outcome, Trial } from '../../../src/simulate/plan/outcome.ts';
import { checkOf, type Search } from '../../../src/simulate/plan/space.ts';
import type { Trials } from '../../../src/simulate/plan/trial.ts';
import { evenTrace, knowing, roundRobin, searchOf } from './planned.ts';

const slo = { ttftMs: 250, tpotMs: null, attainment: 0.9 };

const counts = (outcome: Outcome | null): [number, number] | null =>
  outcome && [outcome.candidate.prefill, outcome.candidate.decode];

describe('the answer is checked with eight times as many requests', () => {
  /** Each P sustains ten a second in short simulations, and `truly` so many in long ones. */
  const searching = (truly: number, unsure: number, maxEngines = 16): Search => ({
    ...searchOf(evenTrace(60, 10), slo, { maxEngines }),
    trials: knowing(({ prefill }, sample) => (sample > 60 ? truly : 10) * prefill, unsure),
    mostRequests: 1000,
  });

  it('and more engines are taken until the check confirms it', async () => {
    const { chosen, oneFewer, front, rivals } = await fewestEngines(searching(8, 0.01), 30);
    expect([counts(chosen), chosen!.sample]).toEqual([[4, 1], 480]);
    expect(oneFewer).toMatchObject({ sample: 480, met: false });
    expect(counts(oneFewer)).toEqual([3, 1]);
    expect(front).toContain(chosen);
    expect(rivals.every(({ sample }) => sample === 60)).toBe(true);
    const none = await fewestEngines(searching(8, 0.01, 4), 30);
    expect([none.chosen, none.closest!.sample]).toEqual([null, 480]);
  });

  it('and fewer engines are too, unless they certainly do not do', async () => {
    const doubted = await fewestEngines(searching(15, 0.3), 30);
    expect(counts(doubted.chosen)).toEqual([2, 1]);
    const certain = await fewestEngines(searching(15, 0.01), 30);
    expect(counts(certain.chosen)).toEqual([3, 1]);
    expect(certain.oneFewer).toMatchObject({ sample: 60, met: false });
  });

  it('and the next larger fleet is, if the answer is not certain', async () => {
    const { chosen, front } = await fewestEngines(searching(10, 0.1), 30);
    expect([counts(chosen), chosen!.sample]).toEqual([[3, 1], 480]);
    const samples = front.map(({ candidate: { prefill, decode }, sample }) => [prefill + decode, sample]);
    expect(samples).toContainEqual([5, 480]);
    const sure = await fewestEngines(searching(10, 0.01), 30);
    expect(sure.front.filter(({ sample }) => sample > 60)).toEqual([sure.chosen]);
  });

  it('and the best rate becomes that of the check', async () => {
    const { chosen, front } = await bestGoodput(searching(8, 0.01), 4, 7);
    expect(counts(chosen!.best)).toEqual([3, 1]);
    expect(chosen!.best).toMatchObject({ sample: 480, met: true });
    expect(chosen!.best.perSecond).toBeLessThanOrEqual(24);
    expect(chosen!.best.perSecond).toBeGreaterThan(24 / 1.03);
    expect(front.at(-1)).toBe(chosen);
  });

  it('after as long a warm-up, with no more requests than the load has', () => {
    const outcome = (withWarmUp: number) =>
      ({ candidate: {}, perSecond: 5, sample: 100, withWarmUp }) as unknown as Outcome;
    const asked = (withWarmUp: number, mostRequests: number) => {
      const { sample, warmUps = null } = checkOf(outcome(withWarmUp), { mostRequests });
      return { sample, warmUps };
    };
    expect(asked(400, 1500)).toEqual({ sample: 800, warmUps: 3 });
    // A fifth of the time is a warm-up anyway.
    expect(asked(200, 1500)).toEqual({ sample: 800, warmUps: 0 });
    expect(asked(400, 700)).toEqual({ sample: 400, warmUps: 3 });
    expect(asked(400, 400)).toEqual({ sample: 100, warmUps: null });
  });
});

it('the best split stays in the running though short simulations, in which nothing lacks D, prefer another', async () => {
  // Short: more P is better. Long: two D are needed.
  const bears = ({ prefill, decode }: Candidate, sample: number) =>
    sample < 400 ? 10 * prefill : 15 * decode;
  const routings = ['a', 'b', 'c'].map((name) => ({ ...roundRobin, name }));
  const policy = { mode: 'bidirectional', threshold: 64, placement: 'pooled', storeBytes: null } as const;
  const candidates = routings.flatMap((routing) =>
    [1, 2, 3].map((prefill) => ({ prefill, decode: 4 - prefill, routing, ...policy })),
  );
  const [best, ...others] = await halve(candidates, knowing(bears), {
    ...{ what: 'test', perSecond: 40, samples: [50, 100, 200, 400] },
    onRound() {},
  });
  expect(counts(best!)).toEqual([1, 3]);
  expect(others).toHaveLength(2);
});

it('that short simulations never keep the SLO is no answer yet', async () => {
  const trials = knowing(({ prefill }, sample) => (sample < 400 ? 0 : 10 * prefill));
  const { chosen } = await fewestEngines({ ...searchOf(evenTrace(400, 10), slo), trials }, 30);
  expect(counts(chosen)).toEqual([3, 1]);
});

it('P grows where more D gained nothing, though D is always busy', async () => {
  const { slo, run } = knowing(({ prefill }) => 10 * prefill);
  const busy = async (trial: Trial): Promise<Outcome> => ({
    ...(await run(trial)),
    busy: { prefill: 0.3, decode: 1 },
  });
  const runAll = (all: readonly Trial[]) => Promise.all(all.map(busy));
  const trials = { slo, run: busy, runAll } as Partial<Trials> as Trials;
  const { chosen } = await fewestEngines({ ...searchOf(evenTrace(60, 10), slo), trials }, 30);
  expect(counts(chosen)).toEqual([3, 1]);
});
