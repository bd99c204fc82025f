/** The transport between two real threads, with the shared memory, message order and deaths of threads. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type TransferListItem, Worker } from 'node:worker_threads';
import { build } from 'vite';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { TransferResult } from '../../src/transport/types.ts';
import { pairsOf, range } from './helpers.ts';
import type { ThreadCommand, ThreadEngineData } from './thread-engine.ts';

const BLOCK = 40_000;
const shape = { blockBytes: [BLOCK], numBlocks: [64] };
let directory = '';

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'kvferry-threads-'));
  await build({
    configFile: false,
    logLevel: 'error',
    ssr: { noExternal: true },
    build: {
      ssr: fileURLToPath(new URL('thread-engine.ts', import.meta.url)),
      outDir: directory,
      rollupOptions: { output: { entryFileNames: 'thread-engine.mjs' } },
    },
  });
});
afterAll(() => rm(directory, { recursive: true }));

class Thread {
  readonly worker: Worker;
  readonly address: { engineId: string; host: string; port: number };

  constructor(engineId: string, port: number, seed: number) {
    const workerData: ThreadEngineData = { engineId, port, seed, shape };
    this.worker = new Worker(join(directory, 'thread-engine.mjs'), { workerData });
    this.address = { engineId, host: 'localhost', port };
  }

  ask<T>(command: ThreadCommand, transfer: TransferListItem[] = []): Promise<T> {
    return new Promise((resolve, reject) => {
      this.worker.once('message', resolve);
      this.worker.once('error', reject);
      this.worker.postMessage(command, transfer);
    });
  }

  exit(): Promise<void> {
    return new Promise((resolve) => {
      this.worker.once('exit', () => resolve());
      this.worker.postMessage({ kind: 'exit' } satisfies ThreadCommand);
    });
  }
}

async function twoThreads(): Promise<[Thread, Thread]> {
  const a = new Thread('a', 1, 11);
  const b = new Thread('b', 2, 22);
  const { port1, port2 } = new MessageChannel();
  const [here, there] = [port1, port2] as unknown as TransferListItem[];
  await a.ask({ kind: 'peer', address: b.address, port: port1 }, [here!]);
  await b.ask({ kind: 'peer', address: a.address, port: port2 }, [there!]);
  return [a, b];
}

it('two threads transfer 1.2 MB each way at once, byte for byte', async () => {
  const [a, b] = await twoThreads();
  const [poolA, poolB] = await Promise.all([a, b].map((t) => t.ask<Uint8Array>({ kind: 'pool' })));
  const pairs = pairsOf(range(1, 30), range(33, 30).toReversed());
  const [intoA, intoB] = await Promise.all([
    a.ask<TransferResult>({ kind: 'read', from: b.address, pairs }),
    b.ask<TransferResult>({ kind: 'read', from: a.address, pairs }),
  ]);
  expect(intoA).toMatchObject({ outcome: 'done', bytes: 30 * BLOCK, blocks: 30 });
  expect(intoB).toMatchObject({ outcome: 'done', bytes: 30 * BLOCK, blocks: 30 });
  const [afterA, afterB] = await Promise.all([a, b].map((t) => t.ask<Uint8Array>({ kind: 'pool' })));
  const block = (pool: Uint8Array | undefined, id: number) =>
    Buffer.from(pool!.subarray(id * BLOCK, (id + 1) * BLOCK));
  for (const { remote, local } of pairs) {
    expect(block(afterA, local).equals(block(poolB, remote))).toBe(true);
    expect(block(afterB, local).equals(block(poolA, remote))).toBe(true);
    expect(block(afterA, remote).equals(block(poolA, remote))).toBe(true);
  }
  await Promise.all([a.exit(), b.exit()]);
});

it("a READ ends as 'dead' when the holder's thread ends", async () => {
  const [a, b] = await twoThreads();
  await b.ask({ kind: 'stall gathers' });
  const result = a.ask<TransferResult>({
    kind: 'read',
    from: b.address,
    pairs: pairsOf(range(1, 10), range(1, 10)),
  });
  await b.exit();
  expect((await result).outcome).toBe('dead');
  await a.exit();
});
