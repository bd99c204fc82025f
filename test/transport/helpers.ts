/** Engines without a GPU for the transport's tests. */
import type { BlockId, Clock } from '../../src/engine/types.ts';
import { compatibilityHash } from '../../src/transport/compatibility.ts';
import type { PeerMessage } from '../../src/transport/messages.ts';
import { createTransport, type PeerTransport, type TransportDeps } from '../../src/transport/transport.ts';
import type {
  BlockPair,
  EngineIdentity,
  ReadGate,
  RemoteAddress,
  TransportHandlers,
} from '../../src/transport/types.ts';
import type { TestClock } from '../clock.ts';
import { TestMemory } from './memory.ts';

export { TestMemory };

export const FACTORS = {
  layout: 'contiguous',
  model: 'nano@1',
  weightDtype: 'f16',
  kvDtype: 'f16',
  numLayers: 2,
  numKvHeads: 2,
  headDim: 16,
} as const;

export const realClock: Clock = {
  now: () => performance.timeOrigin + performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', end);
        resolve();
      };
      const timer = setTimeout(end, ms);
      signal?.addEventListener('abort', end);
      if (signal?.aborted) end();
    }),
};

/** Lets messages between ports arrive: a few turns of the event loop. */
export async function turns(count = 20): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}

/** Runs the work, meanwhile skipping the clock from one sleeper to the next. */
export async function withSkippedTime<T>(clock: TestClock, work: Promise<T>): Promise<T> {
  let ended = false;
  const end = () => {
    ended = true;
  };
  work.then(end, end);
  while (!ended) {
    await turns(3);
    clock.skip();
  }
  return work;
}

export interface TestEngine {
  transport: PeerTransport;
  memory: TestMemory;
  address: RemoteAddress;
  /** READs allowed and not yet finished, and how often finished() was called. */
  pins: { held: number; finished: number };
}

export interface TestEngineOptions extends Partial<Omit<TransportDeps, 'memory' | 'identity'>> {
  memory?: TestMemory;
  identityChanges?: Partial<EngineIdentity>;
  /** Default: a gate that allows every READ. */
  handlers?: Partial<TransportHandlers>;
  /** Side channel port. Default: the next unused one. */
  port?: number;
}

/** For gates that ignore it. */
export const CLAIM = {
  held: { numTokens: 32, digest: 'held' },
  prompt: { numTokens: 16, digest: 'prompt' },
};

let lastPort = 5600;

export function makeEngine(engineId: string, options: TestEngineOptions = {}): TestEngine {
  const pins = { held: 0, finished: 0 };
  const gate: ReadGate = () => {
    pins.held += 1;
    const finished = () => {
      pins.held -= 1;
      pins.finished += 1;
    };
    return { allow: true, finished };
  };
  const {
    memory = new TestMemory().fillRandom(engineId.length),
    identityChanges,
    port = ++lastPort,
    handlers = { gate },
    ...deps
  } = options;
  const address = { engineId, host: 'localhost', port };
  const identity: EngineIdentity = {
    ...address,
    compatibilityHash: compatibilityHash(deps.factors ?? FACTORS),
    blockSize: 16,
    blockBytes: memory.blockBytes,
    ...identityChanges,
  };
  const transport = createTransport({
    identity,
    factors: FACTORS,
    memory,
    clock: realClock,
    chunkBytes: 256,
    checksum: true,
    ...deps,
  });
  transport.setHandlers(handlers);
  return { transport, memory, address, pins };
}

/** `copies`: how often each message posted by either side is delivered; 0 loses it. Default: once. */
export function connect(a: TestEngine, b: TestEngine, copies?: (message: PeerMessage) => number): void {
  const { port1, port2 } = new MessageChannel();
  a.transport.addPeer(copies ? faulty(port1, copies) : port1, b.address);
  b.transport.addPeer(copies ? faulty(port2, copies) : port2, a.address);
}

function faulty(port: MessagePort, copies: (message: PeerMessage) => number): MessagePort {
  const postMessage = (message: PeerMessage) => {
    for (let copy = copies(message); copy > 0; copy--) port.postMessage(message);
  };
  return new Proxy(port, {
    get(target, name) {
      if (name === 'postMessage') return postMessage;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

export interface Pair {
  reader: TestEngine;
  holder: TestEngine;
  close(): void;
}

export function makePair(
  options: TestEngineOptions & { reader?: TestEngineOptions; holder?: TestEngineOptions } = {},
): Pair {
  const { reader: readerOptions, holder: holderOptions, ...both } = options;
  const holder = makeEngine('holder', { ...both, ...holderOptions });
  const reader = makeEngine('reader', { memory: new TestMemory(), ...both, ...readerOptions });
  connect(reader, holder);
  const close = () => {
    reader.transport.close();
    holder.transport.close();
  };
  return { reader, holder, close };
}

export function pairsOf(remote: readonly BlockId[], local: readonly BlockId[], group = 0): BlockPair[] {
  return remote.map((id, i) => ({ group, remote: id, local: local[i]! }));
}

export function read(
  reader: TestEngine,
  holder: Pick<TestEngine, 'address'>,
  pairs: readonly BlockPair[],
  id = 'req',
) {
  return reader.transport.read({
    remote: holder.address,
    remoteRequestId: `${id}@holder`,
    claim: CLAIM,
    pairs,
    requestId: id,
  });
}

/** Pairs whose blocks differ between the two memories. */
export function differing(reader: TestMemory, holder: TestMemory, pairs: readonly BlockPair[]): BlockPair[] {
  return pairs.filter(({ group, remote, local }) => {
    const want = holder.block(group, remote);
    return reader.block(group, local).some((byte, i) => byte !== want[i]);
  });
}

export const range = (first: number, count: number): number[] =>
  Array.from({ length: count }, (_, i) => first + i);
