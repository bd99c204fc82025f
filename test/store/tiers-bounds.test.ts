/** 10,000 turns on a store with all its tiers, which fail now and then: each stays within its limits. */
import { expect, it } from 'vitest';
import type { BlockHash } from '../../src/engine/block-hash.ts';
import type { KeyValueServer, StoreFile, StoreFolder } from '../../src/platform/types.ts';
import { ArenaMemory } from '../../src/store/arena.ts';
import { HEAD_BYTES } from '../../src/store/block-file.ts';
import { BlockCatalog } from '../../src/store/catalog.ts';
import { FolderTier } from '../../src/store/folder-tier.ts';
import { LowerTiers } from '../../src/store/lower-tiers.ts';
import { ServerTier } from '../../src/store/server-tier.ts';
import { StoreService } from '../../src/store/service.ts';
import { emptyResult } from '../../src/transport/transfer.ts';
import type { PeerNotification, ServingTransport, TransportHandlers } from '../../src/transport/types.ts';
import { Random } from '../../src/workload/random.ts';
import { TestClock } from '../clock.ts';

const TURNS = 10_000;
const AT_ONCE = 4;
const GROUPS = [40, 24];
const BLOCK = Math.max(...GROUPS);
const SLOTS = 48;
const QUOTA = 80 * (BLOCK + HEAD_BYTES);
const CONVERSATIONS = 30;
const MOST_BLOCKS = 10;

const random = new Random(1);
const below = (n: number): number => Math.floor(random.float() * n);
const fails = (share: number): boolean => random.float() < share;
const hashOf = (conversation: number, life: number, block: number): BlockHash =>
  (1 + block + 100 * (conversation + 100 * life)).toString(16).padStart(64, '0');
const contentOf = (hash: BlockHash, group: number): number => (Number(`0x${hash}`) * 7 + group) % 251;

/** A folder in memory that sometimes fails. */
const files = new Map<string, Uint8Array>();
const folder: StoreFolder = {
  location: 'memory',
  isEmpty: async () => files.size === 0,
  list: async () =>
    [...files].map(([name, { length: bytes }]): StoreFile => ({ name, bytes, modifiedMs: 0 })),
  read: async (name) => files.get(name) ?? null,
  async write(name, bytes) {
    await null;
    if (fails(0.001)) throw new Error('the disk is full');
    files.set(name, bytes.slice());
  },
  remove: async (name) => void files.delete(name),
};

/** A server that drops values beyond 400, sometimes refuses one and sometimes loses the connection. */
const values = new Map<string, Uint8Array>();
const answer = async <T>(value: T): Promise<T> => {
  await null;
  if (fails(0.0005)) throw new Error('the connection was reset');
  return value;
};
const server: KeyValueServer = {
  location: 'map',
  has: (keys) => answer(keys.map((key) => values.has(key))),
  get: (key) => answer(values.get(key) ?? null),
  async set(key, value) {
    values.set(key, value.slice());
    if (values.size > 400) values.delete(values.keys().next().value!);
    return answer(fails(0.001) ? 'OOM' : null);
  },
  remove: (keys) => answer(keys.forEach((key) => void values.delete(key))),
  drop() {},
};

/** The store's transport: passes on its answers, and fills in the blocks that it reads from engines. */
class FakeTransport {
  readonly identity = {
    ...{ engineId: 'store', host: '', port: 0, compatibilityHash: '', blockSize: 16, blockBytes: GROUPS },
  };
  handlers: Partial<TransportHandlers> = {};
  readonly #memory: ArenaMemory;
  readonly #answers = new Map<string, (said: PeerNotification) => void>();
  readonly offered = new Map<string, readonly BlockHash[]>();

  constructor(memory: ArenaMemory) {
    this.#memory = memory;
  }

  setHandlers(handlers: Partial<TransportHandlers>): void {
    this.handlers = handlers;
  }

  /** Sends a question to the store; resolves to its answer. */
  ask(id: string, engineId: string, question: PeerNotification): Promise<PeerNotification> {
    const said = new Promise<PeerNotification>((resolve) => this.#answers.set(id, resolve));
    this.handlers.onNotification!(engineId, question);
    return said;
  }

  notify(_: unknown, said: PeerNotification): void {
    const id = said.kind === 'store_found' ? said.leaseId : said.kind === 'store_taken' ? said.offerId : '';
    this.#answers.get(id)?.(said);
    this.#answers.delete(id);
  }

  async read({ remoteRequestId, pairs }: Parameters<ServingTransport['read']>[0]) {
    await null;
    const hashes = this.offered.get(remoteRequestId)!;
    const broken = fails(0.02);
    for (const { group, remote, local } of broken ? pairs.slice(1) : pairs)
      this.#memory.block(group, local).fill(contentOf(hashes[remote]!, group));
    return emptyResult(broken ? 'failed' : 'done', '', 0);
  }
}

it(`${TURNS} turns keep memory, folder and leases within their limits, and never mix up blocks`, async () => {
  const clock = new TestClock();
  const memory = new ArenaMemory(SLOTS, GROUPS);
  const rest = { namespace: 'a'.repeat(64), blockBytes: BLOCK, ttlMs: null, clock, onTrouble() {} };
  const folderTier = await FolderTier.open({ folder, quotaBytes: QUOTA, ...rest });
  const serverTier = await ServerTier.open({ server, ...rest });
  const lower = new LowerTiers(
    [
      { tier: folderTier, ingestion: 'ALL' },
      { tier: serverTier, ingestion: 'EVICTED' },
    ],
    memory,
    clock,
  );
  const catalog = new BlockCatalog({ slots: SLOTS, eviction: 's3fifo', ...lower.listeners });
  const transport = new FakeTransport(memory);
  const service = new StoreService({
    transport: transport as unknown as ServingTransport,
    ...{ catalog, clock, lower },
  });
  const engines = ['prefill-0', 'decode-0'].map((engineId) => ({ engineId, host: '', port: 0 }));
  for (const engine of engines) service.addEngine(engine);
  const lengths = Array.from({ length: CONVERSATIONS }, () => ({ life: 0, blocks: 0 }));
  const wrong: BlockHash[] = [];
  const count = { loaded: 0, saved: 0, most: 0, folderBytes: 0 };

  async function turn(number: number): Promise<void> {
    const conversation = below(CONVERSATIONS);
    const of = lengths[conversation]!;
    if (of.blocks >= MOST_BLOCKS) Object.assign(of, { life: of.life + 1, blocks: 0 });
    of.blocks += 1 + below(3);
    const { life, blocks } = of;
    const hashes = Array.from({ length: blocks }, (_, block) => hashOf(conversation, life, block));
    const engine = engines[number % 2]!;
    const leaseId = `lease ${number}`;
    const lookup = { kind: 'store_lookup', leaseId, hashes, wait: false } as const;
    const found = await transport.ask(leaseId, engine.engineId, lookup);
    const ids = found.kind === 'store_found' ? found.blockIds : [];
    const { length } = ids[0]!;
    if (length > 0) {
      const claim = { held: { numTokens: 0, digest: '' }, prompt: { numTokens: 0, digest: '' } };
      if (fails(0.1)) transport.handlers.onNotification!(engine.engineId, { kind: 'store_release', leaseId });
      else if (fails(0.01)) {
        transport.handlers.onPeerGone!(engine.engineId);
        service.addEngine(engine);
      } else {
        const gate = transport.handlers.gate!(leaseId, ids, claim, engine.engineId);
        // Not allowed if another turn removed the engine in the meantime.
        if (gate.allow) {
          for (const [group, list] of ids.entries())
            for (const [place, blockId] of list.entries()) {
              const bytes = memory.block(group, blockId);
              if (bytes.some((byte) => byte !== contentOf(hashes[place]!, group))) wrong.push(hashes[place]!);
            }
          await null;
          gate.finished();
          count.loaded += length;
        }
      }
    }
    const offerId = `offer ${number}`;
    const saved = hashes.slice(length);
    transport.offered.set(offerId, saved);
    const offer = { kind: 'store_offer', offerId, number, hashes: saved } as const;
    const taken = await transport.ask(offerId, engine.engineId, offer);
    transport.offered.delete(offerId);
    count.saved += taken.kind === 'store_taken' ? taken.taken.length : 0;
    count.most = Math.max(count.most, catalog.size);
    count.folderBytes = Math.max(count.folderBytes, folderTier.bytes);
  }

  for (let first = 0; first < TURNS; first += AT_ONCE) {
    await Promise.all(Array.from({ length: AT_ONCE }, (_, i) => turn(first + i)));
    clock.advance(50);
    if (first % 500 === 0) catalog.checkIntegrity();
  }
  await lower.writeRest(catalog);
  catalog.checkIntegrity();
  expect(wrong).toEqual([]);
  expect([service.leases, catalog.inUse, count.most]).toEqual([0, 0, SLOTS]);
  const held = [...files].filter(([name]) => name.endsWith('.kv'));
  expect(held.reduce((sum, [, { length }]) => sum + length, 0)).toBe(folderTier.bytes);
  expect(count.folderBytes).toBeLessThanOrEqual(QUOTA);
  expect(count.folderBytes).toBeGreaterThan(QUOTA - BLOCK - HEAD_BYTES);
  expect(held.length).toBe(folderTier.blocks);
  // The run used all tiers and met every kind of failure.
  expect(Math.min(count.loaded, count.saved)).toBeGreaterThan(TURNS / 2);
  expect(folderTier.counters.read).toBeGreaterThan(100);
  expect(serverTier.counters.read).toBeGreaterThan(100);
  expect(Math.min(serverTier.counters.outages, folderTier.counters.leftOut)).toBeGreaterThan(0);
  expect(folderTier.counters.broken + serverTier.counters.broken).toBe(0);
});
