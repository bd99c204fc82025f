/** An engine without a GPU in its own thread, for threads.test.ts. Takes commands over parentPort. */
import { parentPort, workerData } from 'node:worker_threads';
import type { BlockPair, RemoteAddress } from '../../src/transport/types.ts';
import { makeEngine, read, TestMemory, turns } from './helpers.ts';

export interface ThreadEngineData {
  engineId: string;
  port: number;
  seed: number;
  shape: { blockBytes: number[]; numBlocks: number[] };
}

export type ThreadCommand =
  | { kind: 'peer'; address: RemoteAddress; port: MessagePort }
  | { kind: 'read'; from: RemoteAddress; pairs: BlockPair[] }
  | { kind: 'pool' }
  | { kind: 'stall gathers' }
  | { kind: 'exit' };

const { engineId, port, seed, shape } = workerData as ThreadEngineData;
const memory = new TestMemory(shape).fillRandom(seed);
const engine = makeEngine(engineId, { port, memory, chunkBytes: 2 ** 17 });

parentPort!.on('message', async (command: ThreadCommand) => {
  switch (command.kind) {
    case 'peer':
      engine.transport.addPeer(command.port, command.address);
      return parentPort!.postMessage('ok');
    case 'read':
      return parentPort!.postMessage(await read(engine, { address: command.from }, command.pairs));
    case 'pool':
      return parentPort!.postMessage(memory.pools[0]);
    case 'stall gathers':
      memory.onGather = () => new Promise(() => {});
      return parentPort!.postMessage('ok');
    case 'exit':
      await turns();
      process.exit(0);
  }
});
