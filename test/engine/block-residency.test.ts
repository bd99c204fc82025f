/** How long blocks stay, told by an engine that serves: against what its clock says of them. */
import { expect, it } from 'vitest';
import { BlockResidency } from '../../src/engine/block-residency.ts';
import { TestClock } from '../clock.ts';
import { engineConfig, request, type Sizes, TestEngine, tokens } from './fakes.ts';

/** Ten blocks of 16 tokens. `draws`: of the blocks as they are allocated; then 0 for ever. */
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

it('tells of a block when it is allocated anew: its life, since its last hit, and between its hits', async () => {
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
  // Of the one block that was shared the last four of five hits are known; the others had none.
  expect(stays.filter(({ reuseGapsMs }) => reuseGapsMs.length > 0)).toEqual([
    { lifetimeMs: 1200, idleMs: 1000, reuseGapsMs: [20, 30, 40] },
  ]);
  expect(stays).toContainEqual({ lifetimeMs: 1000, idleMs: 1000, reuseGapsMs: [] });
  expect(engine.core.takeStays()).toEqual([]);
});

it('follows the share of blocks that is asked for', async () => {
  const { engine, serve } = start(0.25, [0.24, 0.25, 0.9, 0.1]);
  await serve('a', tokens(60));
  await serve('b', tokens(160, 9));
  expect(engine.core.takeStays()).toHaveLength(2);
});

it('tells of nothing that was forgotten with the whole cache, nor without prefix caching', async () => {
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
