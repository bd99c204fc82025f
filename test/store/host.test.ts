/** A store's host with an engine that saves to it and loads from it, over the real transport. */
import { expect, it } from 'vitest';
import { STORE_ADDRESS } from '../../src/config/connectors.ts';
import type { BlockHash } from '../../src/engine/block-hash.ts';
import type { StoreFolder } from '../../src/platform/types.ts';
import { hostStore, type StoreStart } from '../../src/store/host.ts';
import type { PeerNotification } from '../../src/transport/types.ts';
import { makeEngine, realClock } from '../transport/helpers.ts';

const hashOf = (block: number): BlockHash => block.toString(16).padStart(64, '0');
const MIB = 2 ** 20;

/** A folder in memory. */
function folderOf(files: Map<string, Uint8Array>): StoreFolder {
  return {
    location: 'memory',
    isEmpty: async () => files.size === 0,
    list: async () => [...files].map(([name, { length: bytes }]) => ({ name, bytes, modifiedMs: 0 })),
    read: async (name) => files.get(name) ?? null,
    write: async (name, bytes) => void files.set(name, bytes.slice()),
    remove: async (name) => void files.delete(name),
  };
}

/** A store with a folder for evicted blocks, and engines prefill-0 and decode-0. */
async function start() {
  const files = new Map<string, Uint8Array>();
  const openFolder = async () => folderOf(files);
  const host = hostStore({ clock: realClock, openFolder, exit() {} });
  const said: PeerNotification[] = [];
  const heard: (() => void)[] = [];
  const onNotification = (_: string, message: PeerNotification): void => {
    said.push(message);
    for (const hear of heard.splice(0)) hear();
  };
  const revoked = new AbortController().signal;
  const streamGate = () => ({
    ready: async () => ({ blockIds: [[1, 2, 3]], numBlocks: 3, revoked }),
    finished() {},
  });
  const engines = ['prefill-0', 'decode-0'].map((engineId) =>
    makeEngine(engineId, { handlers: { onNotification, streamGate } }),
  );
  const identity = { ...engines[0]!.transport.identity, ...STORE_ADDRESS };
  const folder = { directory: '', bytes: MIB, namespace: 'a'.repeat(64), ttlMs: null, ingestion: 'EVICTED' };
  const settings = { identity, bytes: MIB, eviction: 'lru', folder, checksum: true } as StoreStart;
  await host.start(
    settings,
    () => {},
    () => {},
  );
  for (const { transport, address } of engines) {
    const { port1, port2 } = new MessageChannel();
    transport.addPeer(port1, STORE_ADDRESS);
    await host.addPeer(address, port2);
  }
  const [prefill, decode] = engines.map(({ transport }) => transport) as [Transport, Transport];
  const answer = async (): Promise<PeerNotification> => {
    while (said.length === 0) await new Promise<void>((resolve) => heard.push(resolve));
    return said.shift()!;
  };
  const offer = (number: number, hashes: readonly BlockHash[]) =>
    prefill.notify(STORE_ADDRESS, { kind: 'store_offer', offerId: `${hashes[0]}`, number, hashes });
  const close = async () => {
    for (const { transport } of engines) transport.close();
    await host.shutdown();
  };
  return { host, files, offer, answer, decode, close };
}

type Transport = ReturnType<typeof makeEngine>['transport'];

const blocksIn = (files: ReadonlyMap<string, unknown>): number =>
  [...files.keys()].filter((name) => name.endsWith('.kv')).length;

it('blocks that are written when they leave memory are written when memory is emptied', async () => {
  const { host, files, offer, answer, close } = await start();
  offer(1, [1, 2, 3].map(hashOf));
  await answer();
  expect(blocksIn(files)).toBe(0);
  await host.clear();
  expect([(await host.stats()).blocks, blocksIn(files)]).toEqual([0, 3]);
  await close();
});

it('an engine that counts its offers from 1 again after memory was emptied is waited for', async () => {
  const { host, offer, answer, decode, close } = await start();
  for (const number of [1, 2]) {
    offer(number, [hashOf(number)]);
    await answer();
  }
  await host.clear();
  const after = { engineId: 'prefill-0', offer: 1 };
  const hashes = [hashOf(9)];
  decode.notify(STORE_ADDRESS, { kind: 'store_lookup', leaseId: 'l', hashes, wait: true, after });
  // The lookup arrives first.
  await realClock.sleep(20);
  offer(1, hashes);
  const answers = [await answer(), await answer()];
  const found = answers.find(({ kind }) => kind === 'store_found');
  expect(found).toMatchObject({ blockIds: [[expect.any(Number)]] });
  await close();
});
