/** What listeners to the engines' prefix caches learn, whenever they begin: engines with real caches, in this thread. */
import { expect, test } from 'vitest';
import { createBlockHasher } from '../../src/engine/block-hash.ts';
import type { EngineCore } from '../../src/engine/engine-core.ts';
import { CacheWatch } from '../../src/fleet/cache-watch.ts';
import type { CacheEventBatch } from '../../src/fleet/notices.ts';
import type { ThreadEngine } from '../../src/fleet/thread-engine.ts';
import { CacheReport } from '../../src/host/cache-report.ts';
import type { EngineEvent } from '../../src/host/engine-report.ts';
import { PrefixIndex } from '../../src/router/prefix-index.ts';
import { engineConfig, request, TestEngine, tokens } from '../engine/fakes.ts';

/** An engine that delivers its reports at send(). */
function start(engineId: string) {
  const report = new CacheReport();
  const calls: (number | null)[] = [];
  let tell: (event: EngineEvent) => void = () => {};
  let requests = 0;
  let own = new TestEngine(engineConfig());
  report.coreIs(own.core as EngineCore);
  const send = () => {
    for (const to of calls.splice(0)) to === null ? report.stop() : report.begin(to);
    for (const batch of report.take()) tell({ kind: 'cache', ...batch, atMs: 0 });
  };
  const engine = {
    engineId,
    inspection: { reportCacheEvents: async (to: number | null) => void calls.push(to) },
    onDeath() {},
    onEvent: (listener: typeof tell) => {
      tell = listener;
    },
  } as unknown as ThreadEngine;
  const compute = async (seed: number) => {
    own.add(request(`r${++requests}`, tokens(48, seed), { maxTokens: 1 }));
    await own.settle();
  };
  const rebuild = () => {
    own = new TestEngine(engineConfig());
    report.coreIs(own.core as EngineCore);
  };
  return { engine, compute, rebuild, send };
}

/** Follows as a routing policy does; `events`: their kinds. */
function follow(caches: CacheWatch) {
  const index = new PrefixIndex({ hasher: createBlockHasher('test'), blockSize: 16 });
  const events: string[] = [];
  const stop = caches.listen(({ engineId, events: some }: CacheEventBatch) => {
    index.update(engineId, some);
    events.push(...some.map(({ kind }) => kind));
  });
  const knows = (seed: number) => Object.fromEntries(index.match(tokens(48, seed), null));
  return { stop, events, knows };
}

test('a listener that comes later gets what is cached first, and then every change, as do the others', async () => {
  const caches = new CacheWatch();
  const { engine, compute, send } = start('p');
  caches.watch(engine);
  await compute(1);
  const first = follow(caches);
  await compute(2);
  send();
  expect([first.knows(1), first.knows(2)]).toEqual([{ p: 48 }, { p: 48 }]);
  const second = follow(caches);
  await compute(3);
  send();
  await compute(4);
  send();
  for (const { knows } of [first, second])
    expect([1, 2, 3, 4].map(knows)).toEqual(Array.from({ length: 4 }, () => ({ p: 48 })));
  // The first is not told again what it knows.
  expect(first.events).toEqual(['stored', 'stored', 'stored']);
  first.stop();
  second.stop();
  send();
  await compute(5);
  send();
  expect([first.events.length, second.events.length]).toEqual([3, 2]);
});

test('a listener whose predecessor has just left misses nothing', async () => {
  const caches = new CacheWatch();
  const { engine, compute, send } = start('p');
  caches.watch(engine);
  follow(caches).stop();
  const listener = follow(caches);
  await compute(1);
  send();
  await compute(2);
  send();
  expect([listener.knows(1), listener.knows(2)]).toEqual([{ p: 48 }, { p: 48 }]);
});

test('a cache that is emptied after a listener came is empty for it, and an engine that joins is followed', async () => {
  const caches = new CacheWatch();
  const [old, fresh] = [start('p'), start('q')];
  caches.watch(old.engine);
  await old.compute(1);
  const listener = follow(caches);
  old.send();
  old.rebuild();
  old.send();
  expect([listener.knows(1), listener.events]).toEqual([{}, ['stored', 'cleared']]);
  caches.watchReplacement(fresh.engine, 0);
  fresh.send();
  await fresh.compute(1);
  fresh.send();
  expect(listener.knows(1)).toEqual({ q: 48 });
});
