/** How long a store keeps blocks for a reader that it reported them to. */
import { expect, it } from 'vitest';
import type { BlockHash } from '../../src/engine/block-hash.ts';
import { BlockCatalog } from '../../src/store/catalog.ts';
import { storeKey } from '../../src/store/keys.ts';
import { StoreService } from '../../src/store/service.ts';
import type {
  PeerNotification,
  ReadClaim,
  ServingTransport,
  TransportHandlers,
} from '../../src/transport/types.ts';
import { settled, TestClock } from '../clock.ts';

const TEN_MINUTES = 600_000;
const hashes = ['a', 'b'].map((digit) => digit.repeat(64)) as BlockHash[];
const claim: ReadClaim = { held: { numTokens: 0, digest: '' }, prompt: { numTokens: 0, digest: '' } };

/** A store with two slots, which hold the two blocks. */
function start(
  own: {
    notify?: (to: unknown, message: PeerNotification) => void;
    read?: () => Promise<{ outcome: string }>;
  } = {},
) {
  const handlers: Partial<TransportHandlers> = {};
  const transport = {
    identity: { blockSize: 16, blockBytes: [16] },
    setHandlers: (given: Partial<TransportHandlers>) => Object.assign(handlers, given),
    notify() {},
    ...own,
  };
  const clock = new TestClock();
  const catalog = new BlockCatalog({ slots: 2, eviction: 'lru' });
  for (const hash of hashes) {
    catalog.prepareStore(storeKey(hash, 0));
    catalog.completeStore(storeKey(hash, 0), true);
  }
  const service = new StoreService({
    transport: transport as unknown as ServingTransport,
    ...{ catalog, clock },
  });
  service.addEngine({ engineId: 'p', host: '', port: 0 });
  const lookup = async (leaseId: string, asked = hashes) => {
    handlers.onNotification!('p', { kind: 'store_lookup', leaseId, hashes: asked, wait: false });
    await settled();
  };
  const offer = async (offerId: string, number: number) => {
    handlers.onNotification!('p', { kind: 'store_offer', offerId, number, hashes });
    await settled();
  };
  const mayRead = (leaseId: string) => handlers.gate!(leaseId, [[1, 2]], claim, 'p');
  return { catalog, service, clock, lookup, offer, mayRead };
}

it('a lease that is neither read nor released ends at the first request after ten minutes', async () => {
  const { service, clock, lookup, mayRead } = start();
  await lookup('lost');
  clock.advance(TEN_MINUTES - 1);
  await lookup('later');
  expect(service.leases).toBe(2);
  clock.advance(1);
  await lookup('now');
  expect(service.leases).toBe(2);
  expect(mayRead('lost')).toMatchObject({ allow: false, outcome: 'declined' });
  expect(mayRead('later')).toMatchObject({ allow: true });
});

it('an offer that arrives twice is read once, and answered once after the read', async () => {
  const sent: PeerNotification[] = [];
  const ends: ((result: { outcome: string }) => void)[] = [];
  const { catalog, offer } = start({
    notify: (_, message) => void sent.push(message),
    read: () => new Promise((resolve) => void ends.push(resolve)),
  });
  catalog.clear();
  await offer('o/1', 1);
  await offer('o/1', 1);
  expect(sent).toEqual([]);
  expect(ends).toHaveLength(1);
  ends[0]!({ outcome: 'done' });
  await settled();
  const places = sent.map((one) => one.kind === 'store_taken' && one.taken.map(([, place]) => place));
  expect(places).toEqual([[0, 1]]);
  expect(catalog.counters.stored).toBe(4);
});

it('blocks that are being read are kept until the read has finished', async () => {
  const { catalog, clock, lookup, mayRead } = start();
  await lookup('slow');
  const decision = mayRead('slow');
  clock.advance(2 * TEN_MINUTES);
  const absent = 'c'.repeat(64) as BlockHash;
  await lookup('other', [absent]);
  expect(catalog.prepareStore(storeKey(absent, 0))).toBeNull();
  if (decision.allow) decision.finished();
  expect(catalog.prepareStore(storeKey(absent, 0))).not.toBeNull();
});
