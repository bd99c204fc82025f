/** The cheapest sources, by hand: computing takes 2 ms per token, a pull 20 ms + 0.1 per token, a load 6 ms + 4 per block. */
import { describe, expect, it } from 'vitest';
import { kvBytesOf } from '../../src/connector/policy/cost-model.ts';
import type { PullQuestion } from '../../src/connector/policy/pull-policy.ts';
import {
  SourceCosts,
  type SourceCostsDeps,
  type SourcePlan,
} from '../../src/connector/policy/source-costs.ts';

const costsOf = (fixedMs: number, msPerToken: number, computeMs = 2, overheadMs = 0) => ({
  predict: ({ count }: PullQuestion) => ({
    pullMs: overheadMs + fixedMs + msPerToken * count,
    recomputeMs: computeMs * count,
  }),
  partsOf: ({ count }: PullQuestion) => ({ overheadMs, fixedMs, movingMs: msPerToken * count }),
});
const load = { fixed_ms: 6, ms_per_byte: 0.04, samples: 9 };
const costs = (changes: Partial<SourceCostsDeps> = {}) =>
  new SourceCosts({
    ...{ load, pulls: costsOf(20, 0.1), linked: false, blockSize: 16, kvBytes: kvBytesOf(16, 100) },
    ...changes,
  });
const rest = { localHitTokens: 32, promptTokens: 500, holderRequests: null };

describe('SourceCosts', () => {
  it('predicts a load as a fixed time plus a time per block, including blocks of loads in progress', () => {
    expect(costs().loadMs(0)).toBe(0);
    expect(costs().loadMs(16)).toBeCloseTo(10, 9);
    expect(costs().loadMs(17)).toBeCloseTo(14, 9);
    const busy = costs();
    busy.started('a', 64);
    expect(busy.loadMs(16)).toBeCloseTo(10 + 16, 9);
    busy.ended('a', null);
    expect(busy.loadMs(16)).toBeCloseTo(10, 9);
  });

  it('counts as saving the computing less the transfers, whose fixed waits overlap and bytes do not', () => {
    expect(costs().savingMs({ stored: 32, pulled: 0 }, rest)).toBeCloseTo(64 - 14, 9);
    expect(costs().savingMs({ stored: 0, pulled: 100 }, rest)).toBeCloseTo(200 - 30, 9);
    expect(costs().savingMs({ stored: 32, pulled: 100 }, rest)).toBeCloseTo(264 - (20 + 8 + 10), 9);
  });

  it('counts only the slower of both sources over modelled links', () => {
    const linked = costs({ linked: true });
    expect(linked.savingMs({ stored: 32, pulled: 100 }, rest)).toBeCloseTo(264 - 30, 9);
    expect(linked.savingMs({ stored: 160, pulled: 10 }, rest)).toBeCloseTo(340 - 46, 9);
  });

  it('counts the overhead of a transfer once, for a load, a pull or both', () => {
    const dear = costs({ pulls: costsOf(20, 0.1, 2, 7) });
    expect(dear.savingMs({ stored: 32, pulled: 0 }, rest)).toBeCloseTo(64 - 14 - 7, 9);
    expect(dear.savingMs({ stored: 0, pulled: 100 }, rest)).toBeCloseTo(200 - 30 - 7, 9);
    expect(dear.savingMs({ stored: 32, pulled: 100 }, rest)).toBeCloseTo(264 - 38 - 7, 9);
  });

  /** The store has 96 tokens; the peer has those and 32 more. */
  const PLANS = {
    both: { stored: 96, pulled: 32 },
    store: { stored: 96, pulled: 0 },
    peer: { stored: 0, pulled: 128 },
  };
  it.each([
    // Of 128 tokens: both 20 + 24 + 3.2, the store 30 + 64 to compute the rest, the peer 32.8, computing 256.
    ['peer', 'the default costs', {}],
    // Both max(30, 23.2), the peer 32.8: of concurrent transfers, the slower one counts.
    ['both', 'one link for each source', { linked: true }],
    // Bytes from the peer are expensive: both 20 + 24 + 96, the store 94, the peer 404, computing 256.
    ['store', 'a slow peer', { pulls: costsOf(20, 3) }],
    // The peer is far away: both 200 + 24 + 3.2, the store 30 + 64, the peer 212.8, computing 256.
    ['store', 'a far peer', { pulls: costsOf(200, 0.1) }],
    // Both 60 + 24 + 3.2, the store 84 + 64, the peer 32.8.
    ['peer', 'a far store', { load: { ...load, fixed_ms: 60 } }],
    // Computing takes 12.8.
    [null, 'fast computing', { pulls: costsOf(20, 0.1, 0.1) }],
    // Both are far, but concurrently no slower than one: 100 over links; each alone takes 100 and leaves more to compute.
    [
      'both',
      'both sources far, over links',
      { linked: true, load: { ...load, fixed_ms: 70 }, pulls: costsOf(90, 0.2) },
    ],
  ] as const)('chooses %s with %s', (wanted, _, changes) => {
    const plans = Object.entries(PLANS).map(([name, plan]) => ({ name, ...plan }));
    expect(costs(changes).choose(plans, rest).plan?.name ?? null).toBe(wanted);
  });

  it('chooses nothing if no plan saves time, and the first of equal plans', () => {
    expect(costs().choose([], rest).plan).toBeNull();
    expect(costs().choose([{ stored: 0, pulled: 8 }], rest).plan).toBeNull();
    const equal = { stored: 32, pulled: 100 };
    expect(costs().choose([{ ...equal, name: 'first' }, equal], rest).plan).toMatchObject({ name: 'first' });
  });

  it('learns from loads, and chooses a source again that was expensive and became fast', () => {
    const plan = { stored: 16, pulled: 0 };
    const dear = costs({ load: { ...load, fixed_ms: 40 } });
    expect(dear.choose([plan], rest).plan).toBeNull();
    for (let i = 0; i < 30; i++) {
      dear.started(`${i}`, 16 * (1 + (i % 4)));
      dear.ended(`${i}`, 2 + (i % 4));
    }
    expect(dear.choose([plan], rest).plan).toBe(plan);
  });

  it('retries, within a budget, a source that looked expensive, and keeps choosing it if it is fast', () => {
    // A load takes 10 ms, but was measured as 300 ms.
    const wrong = costs({ load: { ...load, fixed_ms: 300 } });
    const plan: SourcePlan = { stored: 64, pulled: 0 };
    let lost = 0;
    let served = 0;
    const taken: boolean[] = [];
    for (let i = 0; i < 400; i++) {
      const chosen = wrong.choose([plan], rest);
      chosen.settle();
      taken.push(chosen.plan !== null);
      served += 2 * (rest.promptTokens - rest.localHitTokens);
      if (!chosen.plan) continue;
      lost += Math.max(0, -wrong.savingMs(plan, rest));
      wrong.started(`${i}`, 64);
      wrong.ended(`${i}`, 10);
    }
    expect(taken.indexOf(true)).toBeGreaterThanOrEqual(10);
    expect(taken.slice(-300)).not.toContain(false);
    expect(lost).toBeLessThan(0.05 * served);
  });

  it('does not retry because of choices that are not settled', () => {
    const wrong = costs({ load: { ...load, fixed_ms: 300 } });
    for (let i = 0; i < 1000; i++) expect(wrong.choose([{ stored: 64, pulled: 0 }], rest).plan).toBeNull();
  });

  /** Prompts, by number, at which the dear plan is tried, though every try fails and nothing is learned. */
  function triesOf(costs: SourceCosts, plans: readonly SourcePlan[], asked = rest, prompts = 100): number[] {
    const dear = plans.at(-1)!;
    return Array.from({ length: prompts }, (_, prompt) => {
      const { plan, settle } = costs.choose(plans, asked);
      settle();
      return plan === dear ? [prompt] : [];
    }).flat();
  }

  it('spends on trying no more than a twentieth of the time that prompts take', () => {
    // A try loses 308 - 64 = 244 ms. A prompt of 50 tokens takes 100 ms, so it pays 5: 244 after 49, then again from what is left.
    const far = costs({ load: { ...load, fixed_ms: 300 } });
    const short = { ...rest, promptTokens: rest.localHitTokens + 50 };
    expect(triesOf(far, [{ stored: 32, pulled: 0 }], short)).toEqual([49, 98]);
  });

  it('tries a source after ten prompts that could have used it, though another is used meanwhile', () => {
    const plans = [
      { stored: 96, pulled: 0 },
      { stored: 0, pulled: 96 },
    ];
    // A try loses 409.6 - 30 ms. A prompt pays a twentieth of 936 - 162 ms, which is enough after ten.
    const tries = triesOf(costs({ pulls: costsOf(400, 0.1) }), plans, rest, 33);
    expect(tries).toEqual([10, 21, 32]);
    // Farther away a try loses 509.6 - 30 ms, for which it takes more prompts.
    expect(triesOf(costs({ pulls: costsOf(500, 0.1) }), plans, rest, 39)).toEqual([13, 25, 38]);
  });

  it('counts no prompts for which the source had nothing', () => {
    const far = costs({ load: { ...load, fixed_ms: 300 } });
    for (let i = 0; i < 50; i++) far.choose([{ stored: 0, pulled: 96 }], rest).settle();
    expect(triesOf(far, [{ stored: 64, pulled: 0 }], rest, 11)).toEqual([10]);
  });

  it('values a block at what it takes to compute it, or to pull it if that is offered and cheaper', () => {
    const worth = (changes: Partial<SourceCostsDeps>, tokens: number, offered?: number) =>
      costs(changes).worthOfBlockMs({
        promptTokenIds: Array.from({ length: tokens }, () => 7),
        kvTransferParams:
          offered === undefined
            ? null
            : {
                ...{ do_remote_prefill: true, do_remote_decode: false },
                ...{ remote_num_tokens: offered, remote_num_requests: 3 },
              },
      });
    expect(worth({}, 500)).toBeCloseTo(16 * 2, 9);
    expect(worth({}, 1)).toBeCloseTo(16 * 2, 9);
    expect(worth({}, 500, 0)).toBeCloseTo(16 * 2, 9);
    expect(worth({}, 500, 200)).toBeCloseTo((16 * (20 + 20)) / 200, 9);
    // No more than the prompt has.
    expect(worth({}, 500, 1000)).toBeCloseTo((16 * (20 + 50)) / 500, 9);
    expect(worth({ pulls: costsOf(20, 3) }, 500, 200)).toBeCloseTo(16 * 2, 9);
    const busy = {
      ...costsOf(20, 0.1),
      predict: ({ count, holderRequests }: PullQuestion) => ({
        pullMs: count * (holderRequests ?? 0),
        recomputeMs: 9 * count,
      }),
    };
    expect(worth({ pulls: busy }, 500, 200)).toBeCloseTo(16 * 3, 9);
  });
});
