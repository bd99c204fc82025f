/** Which blocks count as brought up from a lower tier by a lookup, and how long a lookup waits for them. */
import { describe, expect, it } from 'vitest';
import type { Prefetch } from '../../src/config/store.ts';
import type { BlockHash } from '../../src/engine/block-hash.ts';
import { Arrivals } from '../../src/store/arrivals.ts';
import { BringUp, type LowerTier, type Raising } from '../../src/store/bring-up.ts';
import { BlockCatalog } from '../../src/store/catalog.ts';
import { type StoreKey, storeKey } from '../../src/store/keys.ts';
import { StoreService } from '../../src/store/service.ts';
import type { StoreFound } from '../../src/transport/store-messages.ts';
import type { PeerNotification, ServingTransport, TransportHandlers } from '../../src/transport/types.ts';
import { TestClock } from '../clock.ts';

const hashes = ['a', 'b', 'c'].map((digit) => digit.repeat(64)) as BlockHash[];
const keyOf = (hash: BlockHash) => storeKey(hash, 0);

/** A store with lower tiers that have every block and load it with `load`; block b comes from the second of them. */
function start(
  load: Raising['load'],
  prefetch?: Prefetch,
  catalog = new BlockCatalog({ slots: 8, eviction: 'lru' }),
  blockBytes: readonly number[] = [16],
) {
  const handlers: Partial<TransportHandlers> = {};
  let say!: (message: PeerNotification) => void;
  const transport = {
    identity: { blockSize: 16, blockBytes },
    setHandlers: (given: Partial<TransportHandlers>) => Object.assign(handlers, given),
    notify: (_: unknown, message: PeerNotification) => say(message),
  };
  const isFar = (key: StoreKey) => key === keyOf(hashes[1]!);
  const lower: LowerTier = { look: async () => ({ has: () => true, isFar, load }), stored() {}, used() {} };
  const clock = new TestClock();
  const service = new StoreService({
    transport: transport as unknown as ServingTransport,
    ...{ catalog, clock, lower, prefetch },
  });
  service.addEngine({ engineId: 'prefill-0', host: '', port: 0 });
  const ask = async (leaseId: string): Promise<StoreFound> => {
    const said = new Promise<PeerNotification>((resolve) => {
      say = resolve;
    });
    handlers.onNotification!('prefill-0', { kind: 'store_lookup', leaseId, hashes, wait: false });
    return (await said) as StoreFound;
  };
  /** The number of blocks that the store reports as found. */
  const lookup = async (leaseId: string) => (await ask(leaseId)).blockIds[0]!.length;
  return { catalog, service, clock, ask, lookup };
}

/** The counters after two lookups, when the `lost` blocks cannot be loaded. */
async function raisedBy(lost: readonly BlockHash[]) {
  const never = new Set(lost.map(keyOf));
  const { catalog, service, lookup } = start(async (key) => !never.has(key));
  for (const leaseId of ['once', 'again']) await lookup(leaseId);
  const { raised, raisedFar } = service.counters;
  return { hits: catalog.counters.hits, raised, raisedFar };
}

it('raised counts the blocks that a lookup loaded and found, not those in memory or behind a gap', async () => {
  expect(await raisedBy([])).toEqual({ hits: 3 + 3, raised: 3, raisedFar: 1 });
  expect(await raisedBy([hashes[2]!])).toEqual({ hits: 2 + 2, raised: 2, raisedFar: 1 });
  expect(await raisedBy([hashes[0]!])).toEqual({ hits: 0, raised: 0, raisedFar: 0 });
});

it("a lookup's answer has the loads that were started for it, and what their blocks hold in each group", async () => {
  const { ask } = start(async () => true, undefined, undefined, [16, 10]);
  expect(await ask('once')).toMatchObject({ raised: 6, raisedBytes: 3 * 16 + 3 * 10 });
  expect(await ask('again')).toMatchObject({ raised: 0, raisedBytes: 0, raisedMs: 0 });
});

it('a lookup is one use of each block, whether the block was in memory or loaded for it', async () => {
  const hot: string[] = [];
  const catalog = new BlockCatalog({
    ...{ slots: 20, eviction: 's3fifo-paper' },
    onHot: (key) => hot.push(key),
  });
  const { lookup } = start(async () => true, undefined, catalog);
  await lookup('once');
  expect(hot).toEqual([]);
  await lookup('twice');
  expect(hot.toSorted()).toEqual(hashes.map(keyOf));
});

describe('prefetch policy', () => {
  /** The first block loads at once, the others after come(). */
  function slow(prefetch: Prefetch) {
    let come: () => void = () => {};
    const others = new Promise<void>((resolve) => {
      come = resolve;
    });
    const store = start(async (key) => {
      if (key !== keyOf(hashes[0]!)) await others;
      return true;
    }, prefetch);
    return { ...store, come };
  }

  it('wait_complete waits until all blocks are loaded', async () => {
    const { lookup, clock, come } = slow('wait_complete');
    const found = lookup('once');
    clock.advance(10_000);
    come();
    expect(await found).toBe(3);
  });

  it("timeout waits for a second plus 48 tokens' share of a quarter second per 1,024 tokens", async () => {
    const { catalog, lookup, clock, come } = slow('timeout');
    let found: number | null = null;
    void lookup('once').then((blocks) => {
      found = blocks;
    });
    await settled();
    clock.advance(1_011);
    await settled();
    expect(found).toBeNull();
    clock.advance(1);
    await settled();
    expect(found).toBe(1);
    come();
    await settled();
    // Late blocks are not kept for this lookup, but the next one finds them.
    expect(catalog.inUse).toBe(1);
    expect(await lookup('again')).toBe(3);
    expect(catalog.inUse).toBe(3);
  });

  it('best_effort does not wait, and the next lookup finds the loaded blocks', async () => {
    const { lookup, come } = slow('best_effort');
    expect(await lookup('once')).toBeLessThan(3);
    come();
    await settled();
    expect(await lookup('again')).toBe(3);
  });
});

const settled = () => new Promise((resolve) => setImmediate(resolve));

it('the part of a prefix in memory is kept while its evicted part is loaded again', async () => {
  const catalog = new BlockCatalog({ slots: 6, eviction: 'lru' });
  const [text, other] = ['a', 'b'].map((name) =>
    [0, 1, 2, 3].map((i) => `${name}${i}`.padEnd(64, '0') as BlockHash),
  );
  for (const hash of [...text!, ...other!]) {
    catalog.prepareStore(keyOf(hash));
    catalog.completeStore(keyOf(hash), true);
  }
  const inMemory = () => text!.map((hash) => catalog.state(keyOf(hash)) === 'ready');
  expect(inMemory()).toEqual([false, false, true, true]);
  const bringUp = new BringUp({
    ...{ catalog, arrivals: new Arrivals(catalog), clock: new TestClock(), blockSize: 16 },
    lower: {
      look: async () => ({ has: () => true, isFar: () => false, load: async () => true }),
      stored() {},
      used() {},
    },
    prefetch: 'wait_complete',
  });
  const asked = { hashes: text!, groups: [{ kind: 'full' as const }], chunk: 1, blockSize: 16 };
  const { kept, raised } = await bringUp.prefixOf(asked, null);
  expect([kept.length, raised.length]).toEqual([4, 2]);
  expect(inMemory()).toEqual([true, true, true, true]);
});
