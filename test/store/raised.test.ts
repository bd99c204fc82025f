/** Which blocks a lookup is said to have found below memory. */
import { expect, it } from 'vitest';
import type { BlockHash } from '../../src/engine/block-hash.ts';
import { BlockCatalog } from '../../src/store/catalog.ts';
import { storeKey } from '../../src/store/keys.ts';
import { type LowerTier, StoreService } from '../../src/store/service.ts';
import type { PeerNotification, ServingTransport, TransportHandlers } from '../../src/transport/types.ts';
import { TestClock } from '../clock.ts';

const hashes = ['a', 'b', 'c'].map((digit) => digit.repeat(64)) as BlockHash[];
const keyOf = (hash: BlockHash) => storeKey(hash, 0);

/** Of a store that has all three below its memory: what two lookups found, when some do not come up. */
async function raisedBy(lost: readonly BlockHash[]) {
  const handlers: Partial<TransportHandlers> = {};
  let say!: (message: PeerNotification) => void;
  const transport = {
    identity: { blockSize: 16, blockBytes: [16] },
    setHandlers: (given: Partial<TransportHandlers>) => Object.assign(handlers, given),
    notify: (_: unknown, message: PeerNotification) => say(message),
  };
  const never = new Set(lost.map(keyOf));
  const lower: LowerTier = {
    look: async () => ({ has: () => true, load: async (key) => !never.has(key) }),
    stored() {},
  };
  const catalog = new BlockCatalog({ slots: 8, eviction: 'lru' });
  const service = new StoreService({
    transport: transport as unknown as ServingTransport,
    ...{ catalog, clock: new TestClock(), lower },
  });
  service.addEngine({ engineId: 'prefill-0', host: '', port: 0 });
  for (const leaseId of ['once', 'again']) {
    const said = new Promise<PeerNotification>((resolve) => {
      say = resolve;
    });
    handlers.onNotification!('prefill-0', { kind: 'store_lookup', leaseId, hashes, wait: false });
    await said;
  }
  return { hits: catalog.counters.hits, raised: service.counters.raised };
}

it('counts what came up for a lookup and was found by it, not what was there, nor what came up behind a gap', async () => {
  expect(await raisedBy([])).toEqual({ hits: 3 + 3, raised: 3 });
  expect(await raisedBy([hashes[2]!])).toEqual({ hits: 2 + 2, raised: 2 });
  expect(await raisedBy([hashes[0]!])).toEqual({ hits: 0, raised: 0 });
});
