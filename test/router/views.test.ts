import { expect, test } from 'vitest';
import { createBlockHasher, extendHashes } from '../../src/engine/block-hash.ts';
import type { EngineLoad } from '../../src/engine/inspect/engine-load.ts';
import { PrefixIndex } from '../../src/router/prefix-index.ts';
import { EngineViews } from '../../src/router/views.ts';
import { FakeEngine } from './fake-engine.ts';

const hashing = { hasher: createBlockHasher('test'), blockSize: 4 };
const load = (atMs: number, running: number, more: Partial<EngineLoad> = {}): EngineLoad => ({
  atMs,
  running,
  waiting: 0,
  waitingForRemote: 0,
  freeBlocks: 10,
  numBlocks: 20,
  promptTokensPerSecond: 0,
  generationTokensPerSecond: 100,
  endedPerSecond: 0,
  ...more,
});
const engine = new FakeEngine('d0', 'decode');

function world(ageMs: number) {
  const views = new EngineViews(new PrefixIndex(hashing), () => ageMs);
  const signals = (nowMs: number) => views.of([engine], nowMs)[0]!.signals;
  return { views, signals };
}

test('what was told last shows at once, even if its clock is ahead', () => {
  const { views, signals } = world(0);
  expect(signals(10)).toBeNull();
  views.load('d0', load(12, 1));
  views.load('d0', load(13, 2));
  expect(signals(11)).toMatchObject({ atMs: 13, running: 2 });
});

test('with an age the newest of what is old enough shows, exactly at its age too', () => {
  const { views, signals } = world(50);
  for (const [atMs, running] of [
    [100, 1],
    [120, 2],
    [160, 3],
  ] as const)
    views.load('d0', load(atMs, running));
  expect(signals(149)).toBeNull();
  expect(signals(150)).toMatchObject({ running: 1 });
  expect(signals(169)).toMatchObject({ running: 1 });
  expect(signals(170)).toMatchObject({ running: 2 });
  expect(signals(500)).toMatchObject({ running: 3 });
});

test('rates of an engine that has nothing to do fade, those of a busy one stay as told', () => {
  const { views, signals } = world(0);
  views.load('d0', load(1000, 1));
  expect(signals(2000)!.generationTokensPerSecond).toBe(100);
  views.load('d0', load(2000, 0));
  expect(signals(2000)!.generationTokensPerSecond).toBe(100);
  expect(signals(3000)!.generationTokensPerSecond).toBeCloseTo(100 / Math.E);
  expect(signals(2000)!.generationTokensPerSecond).toBe(100);
});

test('caches are as old as loads are', () => {
  const tokens = [1, 2, 3, 4];
  const hashes: string[] = [];
  extendHashes(hashes, { tokenIds: tokens, cacheSalt: null }, hashing, 1);
  const events = [
    {
      kind: 'stored' as const,
      group: 0,
      blockHashes: hashes,
      parentBlockHash: null,
      tokenIds: tokens,
      blockSize: 4,
    },
  ];
  for (const [ageMs, nowMs, expected] of [
    [0, 90, 4],
    [50, 149, 0],
    [50, 150, 4],
  ] as const) {
    const { views } = world(ageMs);
    views.cached({ engineId: 'd0', atMs: 100, events });
    expect(views.cachedTokens(tokens, null, nowMs)('d0')).toBe(expected);
    views.forget('d0');
    expect(views.cachedTokens(tokens, null, 1000)('d0')).toBe(0);
  }
});

test('an engine that is gone leaves no load', () => {
  const { views, signals } = world(0);
  views.load('d0', load(1, 1));
  views.forget('d0');
  expect(signals(2)).toBeNull();
});
