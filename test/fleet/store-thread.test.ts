/** A store's thread as its cluster sees it, over a thread that only answers. */
import { expect, test } from 'vitest';
import { StoreThread } from '../../src/fleet/store-thread.ts';
import type { ThreadEngine } from '../../src/fleet/thread-engine.ts';
import type { StoreOptions } from '../../src/fleet/types.ts';
import { expose } from '../../src/host/rpc.ts';
import type { Platform } from '../../src/platform/types.ts';
import { type EngineWire, plainWire } from '../../src/transport/channel.ts';
import type { EngineIdentity } from '../../src/transport/types.ts';

/** `endsAsItIsAsked`: its thread ends in place of answering addPeer. */
async function world(endsAsItIsAsked = false) {
  const { port1, port2 } = new MessageChannel();
  let exit: (reason: string) => void = () => {};
  const end = (reason: string) => {
    port1.close();
    exit(reason);
  };
  const addPeer = () => {
    if (!endsAsItIsAsked) return Promise.resolve();
    end('out of memory');
    return new Promise(() => {});
  };
  expose({ start: async () => {}, addPeer, shutdown: async () => end('it was closed') }, port2);
  const onExit = (listener: typeof exit) => {
    exit = listener;
  };
  const platform = { startStoreThread: async () => ({ port: port1, onExit }) } as Partial<Platform>;
  const wired: string[] = [];
  const wire: EngineWire = (a, b) => {
    wired.push(`${a.engineId} ${b.engineId}`);
    return plainWire(a, b);
  };
  const options = { bytes: 1, eviction: 'lru' } as unknown as StoreOptions;
  const identity = {} as EngineIdentity;
  const store = await StoreThread.start(platform as Platform, options, identity, false, 'n', wire);
  const died: string[] = [];
  const engine = (engineId: string) =>
    ({
      engineId,
      address: { engineId, host: 'localhost', port: 5600 },
      serving: { addPeer: async () => {}, peerDied: async () => void died.push(engineId) },
      onDeath() {},
    }) as unknown as ThreadEngine;
  return { store, engine, wired, died };
}

test('an engine that comes later is joined by the same wire', async () => {
  const { store, engine, wired } = await world();
  await store.connect(engine('decode-0'));
  await store.connect(engine('decode-0.2'));
  expect(wired).toEqual(['decode-0 store', 'decode-0.2 store']);
  await store.shutdown();
});

test('a store that ends while an engine is joined to it keeps nobody: the engine is told', async () => {
  const { store, engine, died } = await world(true);
  await store.connect(engine('decode-0'));
  expect(store.ended).toBe('out of memory');
  expect(died).toEqual(['decode-0']);
});
