/** The limits of fleet settings, with simulated and real engines. */
import { expect, test } from 'vitest';
import {
  checkFleet,
  defaultFleet,
  liveOf,
  needsNewFleet,
  withinReach,
} from '../../demo/src/fleet/settings.ts';

const real = { ...defaultFleet, engines: 'real' } as const;

test('settings beyond the limits of real engines are reduced, each with a named problem', () => {
  const asked = { ...real, prefill: 8, decode: 2, blocks: 4096 };
  const { settings, problems } = withinReach(asked);
  expect(settings).toEqual({ ...asked, prefill: 2, blocks: 1024 });
  expect(problems).toEqual([
    expect.stringContaining('prefill is 8'),
    expect.stringContaining('blocks is 4096'),
  ]);
  const simulated = { ...asked, engines: 'simulated' } as const;
  expect(withinReach(simulated)).toEqual({ settings: simulated, problems: [] });
});

test('a store is set in blocks; its folder needs a store, and real engines have no folder', () => {
  expect(liveOf(defaultFleet, null).store).toBeNull();
  const asked = { ...defaultFleet, store: 100, storeFolder: 500, storeEviction: 'lru' } as const;
  expect(withinReach(asked)).toEqual({ settings: asked, problems: [] });
  expect(liveOf(asked, null).store).toEqual({ blocks: 100, folderBlocks: 500, eviction: 'lru' });
  expect(needsNewFleet(defaultFleet, asked)).toBe(true);
  const alone = withinReach({ ...asked, store: 0 });
  expect(alone).toEqual({
    settings: { ...asked, store: 0, storeFolder: 0 },
    problems: [expect.stringContaining('storeFolder is 500')],
  });
  const inReal = withinReach({ ...asked, engines: 'real' });
  expect(inReal.settings).toMatchObject({ store: 100, storeFolder: 0 });
  expect(inReal.problems).toEqual([
    expect.stringContaining('storeFolder is 500: real engines on this page have none'),
  ]);
});

test('modelled times do not affect real engines', () => {
  expect(needsNewFleet(real, { ...real, startUp: 1 })).toBe(false);
  expect(needsNewFleet(defaultFleet, { ...defaultFleet, startUp: 1 })).toBe(true);
  expect(needsNewFleet(defaultFleet, real)).toBe(true);
});

test('conversations longer than the model allows are refused, even if the pool could hold them', () => {
  const load = { rate: 1, turns: 12, question: 200, answer: 64, system: 0, thinkMs: 0 };
  checkFleet({ engines: 'simulated', blocks: 256 }, load);
  expect(() => checkFleet({ engines: 'real', blocks: 256 }, load)).toThrow(
    /9504 tokens.*nano takes at most 8192/,
  );
  expect(() => checkFleet({ engines: 'real', blocks: 32 }, load)).toThrow(/32 blocks hold/);
});
