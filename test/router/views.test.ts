import { expect, test } from 'vitest';
import { createBlockHasher, extendHashes } from '../../src/engine/block-hash.ts';
import type { EngineLoad } from '../../src/engine/inspect/engine-load.ts';
import { PrefixIndex } from '../../src/router/prefix-index.ts';
import { TurnsByEngine } from '../../src/router/turns-by-engine.ts';
import { EngineViews, type ViewedEngine } from '../../src/router/views.ts';
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

test('without an age the last load is shown at once, even if its clock is ahead', () => {
  const { views, signals } = world(0);
  expect(signals(10)).toBeNull();
  views.load('d0', load(12, 1));
  views.load('d0', load(13, 2));
  expect(signals(11)).toMatchObject({ atMs: 13, running: 2 });
});

test('with an age the newest load that is at least that old is shown', () => {
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

test('rates of an idle engine decay, and those of a busy one stay as reported', () => {
  const { views, signals } = world(0);
  views.load('d0', load(1000, 1));
  expect(signals(2000)!.generationTokensPerSecond).toBe(100);
  views.load('d0', load(2000, 0));
  expect(signals(2000)!.generationTokensPerSecond).toBe(100);
  expect(signals(3000)!.generationTokensPerSecond).toBeCloseTo(100 / Math.E);
  expect(signals(2000)!.generationTokensPerSecond).toBe(100);
});

test('cached prefixes are shown at the same age as loads', () => {
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

test('a forgotten engine has no load', () => {
  const { views, signals } = world(0);
  views.load('d0', load(1, 1));
  views.forget('d0');
  expect(signals(2)).toBeNull();
});

test('turns that will come to an engine count as in flight there', () => {
  const { views } = world(0);
  const coming = new TurnsByEngine();
  const arrive = coming.enter(['d0']);
  const counts = () => [views.of([engine], 0, coming)[0]!.inFlight, views.of([engine], 0)[0]!.inFlight];
  expect(counts()).toEqual([1, 0]);
  arrive();
  expect(counts()).toEqual([0, 0]);
});

test('an unchanged engine keeps its view object, and earlier views never change', () => {
  const { views } = world(0);
  const load1 = { inFlight: 1 };
  const [d0, p0] = (['decode', 'prefill'] as const).map((role) => {
    return { engineId: `${role[0]}0`, role, ended: null as Error | null, load: load1 };
  }) as [ViewedEngine, ViewedEngine];
  const before = views.of([d0, p0], 10);
  expect(views.of([d0, p0], 20)[0]).toBe(before[0]);
  Object.assign(d0, { load: { inFlight: 3 } });
  const after = views.of([d0, p0], 30);
  expect([before[0], after[0]]).toMatchObject([{ inFlight: 1 }, { inFlight: 3 }]);
  expect(after[1]).toBe(before[1]);
  views.load('p0', load(40, 1));
  Object.assign(d0, { ended: new Error('it is gone') });
  expect(views.of([p0, d0], 40)).toMatchObject([
    { engineId: 'p0', signals: { running: 1 } },
    { engineId: 'd0', ended: true },
  ]);
  expect([before[1]!.signals, after[0]!.ended]).toEqual([null, false]);
});
