/** Which sources are cheapest, by hand: a token takes 2 ms to compute, a pull 20 ms and 0.1 ms a token, a block to load 4 ms. */
import { describe, expect, it } from 'vitest';
import type { PullQuestion } from '../../src/connector/policy/pull-policy.ts';
import { SourceCosts } from '../../src/connector/policy/source-costs.ts';

const pulls = {
  predict: ({ count }: PullQuestion) => ({ pullMs: 20 + 0.1 * count, recomputeMs: 2 * count }),
};
const load = { fixed_ms: 6, ms_per_byte: 0.04, samples: 9 };
const costs = () => new SourceCosts({ load, pulls, blockSize: 16, blockBytes: 100 });
const rest = { localHitTokens: 32, promptTokens: 500, holderRequests: null };

describe('sources by cost', () => {
  it('a load is a fixed time and one for each block', () => {
    expect(costs().loadMs(0)).toBe(0);
    expect(costs().loadMs(16)).toBeCloseTo(10, 9);
    expect(costs().loadMs(17)).toBeCloseTo(14, 9);
  });

  it('a plan spares what it need not compute, less what it moves', () => {
    expect(costs().savingMs({ stored: 32, pulled: 0 }, rest)).toBeCloseTo(64 - 14, 9);
    expect(costs().savingMs({ stored: 0, pulled: 100 }, rest)).toBeCloseTo(200 - 30, 9);
    expect(costs().savingMs({ stored: 32, pulled: 100 }, rest)).toBeCloseTo(50 + 170, 9);
  });

  it("a pull's tokens stand behind those that are loaded, and a plan without either costs nothing", () => {
    const asked: PullQuestion[] = [];
    const watched = {
      predict: (question: PullQuestion) => {
        asked.push(question);
        return pulls.predict(question);
      },
    };
    const its = new SourceCosts({ load, pulls: watched, blockSize: 16, blockBytes: 100 });
    its.savingMs({ stored: 32, pulled: 100 }, rest);
    expect(asked).toEqual([
      { ...rest, count: 32 },
      { ...rest, count: 100, localHitTokens: 64 },
    ]);
    expect(its.savingMs({ stored: 0, pulled: 0 }, rest)).toBe(0);
  });

  it('the plan that spares most is taken, none where each costs more, the first of equal ones', () => {
    const both = { stored: 32, pulled: 100, name: 'both' };
    const peer = { stored: 0, pulled: 132, name: 'peer' };
    const short = { stored: 0, pulled: 8, name: 'short' };
    // 264 - 33.2 = 230.8 for the peer alone, and 220 for both: the load is dearer than a longer pull.
    expect(costs().choose([both, peer], rest)).toBe(peer);
    expect(costs().choose([short], rest)).toBeNull();
    expect(costs().choose([], rest)).toBeNull();
    expect(costs().choose([{ ...both, name: 'first' }, both], rest)).toMatchObject({ name: 'first' });
  });

  it('learns from loads: what was dear and comes quickly is taken again', () => {
    const plan = { stored: 16, pulled: 0 };
    const dear = new SourceCosts({ load: { ...load, fixed_ms: 40 }, pulls, blockSize: 16, blockBytes: 100 });
    expect(dear.choose([plan], rest)).toBeNull();
    for (let i = 0; i < 30; i++) dear.loaded(100 * (1 + (i % 4)), 2 + (i % 4));
    expect(dear.choose([plan], rest)).toBe(plan);
    expect(costs().choose([plan], rest)).toBe(plan);
  });
});
