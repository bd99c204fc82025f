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

  it('and what seems as good as the best is no longer, if the check says so', async () => {
    // For 60 requests 1 P and 3 D are as fast as 3 P and 1 D. For more they are only half as fast.
    const whenLong = (share: number) => (candidate: Candidate, sample: number) =>
      candidate.prefill === 2 ? 5 : candidate.prefill === 1 && sample > 60 ? 30 * share : 30;
    const rivals = async (share: number) => {
      const trials = knowing(whenLong(share));
      const found = await bestGoodput({ ...searching(1, 0.01), trials, mostRequests: 1000 }, 4, 7);
      return [found.chosen!.best, ...found.rivals].map(counts);
    };
    expect(await rivals(1)).toEqual([
      [1, 3],
      [3, 1],
    ]);
    expect(await rivals(0.5)).toEqual([[1, 3]]);
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

it('the best rate is that of the best split, though short simulations prefer another', async () => {
  const trials = knowing(({ prefill, decode }, sample) => (sample < 400 ? 10 * prefill : 15 * decode));
  const { chosen } = await bestGoodput({ ...searchOf(evenTrace(400, 10), slo), trials }, 8, 20);
  expect(counts(chosen!.best)).toEqual([1, 7]);
  expect(chosen!.best.perSecond).toBeGreaterThan(105 / 1.03);
});

it('that short simulations never keep the SLO is no answer yet', async () => {
  const trials = knowing(({ prefill }, sample) => (sample < 400 ? 0 : 10 * prefill));
  const { chosen } = await fewestEngines({ ...searchOf(evenTrace(400, 10), slo), trials }, 30);
  expect(counts(chosen)).toEqual([3, 1]);
});

/** A search in which candidates are as busy as `busyOf` says. */
function whereBusy(
  bears: (candidate: Candidate) => number,
  busyOf: (candidate: Candidate) => Outcome['busy'],
  maxEngines = 16,
): Search {
  const { slo, run: plain } = knowing(bears);
  const run = async (trial: Trial): Promise<Outcome> => ({
    ...(await plain(trial)),
    busy: busyOf(trial.candidate),
  });
  const runAll = (all: readonly Trial[]) => Promise.all(all.map(run));
  const trials = { slo, run, runAll } as Partial<Trials> as Trials;
  return { ...searchOf(evenTrace(60, 10), slo, { maxEngines }), trials };
}

it('P grows where more D gained nothing, though D is always busy', async () => {
  const search = whereBusy(
    ({ prefill }) => 10 * prefill,
    () => ({ prefill: 0.3, decode: 1 }),
  );
  const { chosen } = await fewestEngines(search, 30);
  expect(counts(chosen)).toEqual([3, 1]);
});

it('only D grows while it is D that lacks engines, though a fleet far too small gains nothing', async () => {
  // 2 P and 27 D are needed. Nothing is served in time by fleets that bear less than half.
  const bears = ({ prefill, decode }: Candidate) => {
    const rate = Math.min(15 * prefill, decode);
    return rate < 14 ? 0 : rate;
  };
  const busyOf = ({ prefill, decode }: Candidate) => ({
    prefill: Math.min(1, Math.min(27, decode) / (15 * prefill)),
    decode: Math.min(1, 27 / decode),
  });
  const { chosen } = await fewestEngines(whereBusy(bears, busyOf, 31), 27);
  expect(counts(chosen)).toEqual([2, 27]);
});
