/** How long blocks stay in an engine that serves requests, checked against its clock. */
import { expect, it } from 'vitest';
import { BlockResidency } from '../../src/engine/block-residency.ts';
import { TestClock } from '../clock.ts';
import { engineConfig, request, type Sizes, TestEngine, tokens } from './fakes.ts';

/** Ten blocks of 16 tokens. `draws`: the random numbers for blocks in the order they are allocated; then always 0. */
function start(share: number, draws: number[] = [], sizes: Sizes = {}) {
  const clock = new TestClock();
  const residency = new BlockResidency({ clock, share, random: () => draws.shift() ?? 0 });
  const engine = new TestEngine(engineConfig({ numBlocks: 11, ...sizes }), { clock, residency });
  const serve = async (requestId: string, promptTokenIds: number[]) => {
    engine.add(request(requestId, promptTokenIds, { maxTokens: 1 }));
    await engine.settle();
  };
  return { clock, engine, serve };
}

it('a stay gives a reallocated block’s lifetime, time since its last hit and gaps between its hits', async () => {
  const { clock, engine, serve } = start(1);
  const shared = tokens(32);
  await serve('a', shared.slice(0, 17));
  for (const [i, ms] of [100, 10, 20, 30, 40].entries()) {
    clock.advance(ms);
    await serve(`hit-${i}`, shared.slice(0, 17));
  }
  expect(engine.core.takeStays().every(({ reuseGapsMs }) => reuseGapsMs.length === 0)).toBe(true);
  clock.advance(1000);
  await serve('other', tokens(160, 9));
  const stays = engine.core.takeStays();
  // Only the shared block was hit. Of its five hits, the last four are kept, so there are three gaps.
  expect(stays.filter(({ reuseGapsMs }) => reuseGapsMs.length > 0)).toEqual([
    { lifetimeMs: 1200, idleMs: 1000, reuseGapsMs: [20, 30, 40] },
  ]);
  expect(stays).toContainEqual({ lifetimeMs: 1000, idleMs: 1000, reuseGapsMs: [] });
  expect(engine.core.takeStays()).toEqual([]);
});

it('stays are recorded for the configured share of allocated blocks', async () => {
  const { engine, serve } = start(0.25, [0.24, 0.25, 0.9, 0.1, 0.9]);
  await serve('a', tokens(60));
  await serve('hit', tokens(60));
  await serve('b', tokens(160, 9));
  expect(engine.core.takeStays()).toHaveLength(2);
});

it('stays are not recorded for blocks cleared by a reset, nor with prefix caching off', async () => {
  const { engine, serve } = start(1);
  await serve('a', tokens(160));
  expect(engine.core.resetPrefixCache()).toBe(true);
  await serve('b', tokens(160, 9));
  expect(engine.core.takeStays()).toEqual([]);
  const without = start(1, [], { prefixCaching: false });
  await without.serve('a', tokens(160));
  await without.serve('b', tokens(160, 9));
  expect(without.engine.core.takeStays()).toEqual([]);
});
