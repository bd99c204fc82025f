/** Prefill and decode nodes for the worker side's tests: the real transport and worker side, memory instead of a GPU. */

import { onTestFinished } from 'vitest';
import type { NixlConfig } from '../../src/config/kv-transfer.ts';
import type { NixlMetadata, RecvRequest, SendRequest } from '../../src/connector/nixl/metadata.ts';
import { NixlWorkerSide } from '../../src/connector/nixl/worker-side.ts';
import type { TransferInfo } from '../../src/connector/types.ts';
import { FULL_GROUP } from '../../src/engine/kv-cache-spec.ts';
import type { ConnectorOutput } from '../../src/engine/kv-connector.ts';
import { claimPrefix, type PrefixClaim } from '../../src/transport/prefix-claim.ts';
import type { BlockPair, ReadClaim } from '../../src/transport/types.ts';
import { TestClock } from '../clock.ts';
import {
  connect,
  makeEngine,
  range,
  type TestEngine,
  type TestEngineOptions,
  TestMemory,
  turns,
} from '../transport/helpers.ts';
import { connectorDefaults } from './scripted.ts';

export { connect };

/** For waits that must end by a change. */
export const NEVER = new AbortController().signal;

export const { leaseMs: LEASE_MS, decoderTtlMs: TTL_MS } = connectorDefaults.nixl;

export interface Node extends TestEngine {
  worker: NixlWorkerSide;
  transfers: TransferInfo[];
  /** Chunks of streamed pulls: of each block, the holder's id and the local one. */
  chunks: (readonly [number, number])[][];
}

/** Closes when the test finishes. */
export function makeNode(
  name: string,
  clock: TestClock,
  options: TestEngineOptions = {},
  changes = {},
): Node {
  const memory = new TestMemory().fillRandom(name.length);
  const engine = makeEngine(name, { memory, clock, ...options });
  const transfers: TransferInfo[] = [];
  const chunks: Node['chunks'] = [];
  const worker = new NixlWorkerSide({
    config: { ...connectorDefaults.nixl, ...changes },
    groups: FULL_GROUP,
    transport: engine.transport,
    clock,
    onChunk: ({ pairs }) => chunks.push(pairs.map(({ remote, local }) => [remote, local] as const)),
    onTransfer: (info) => transfers.push(info),
  });
  onTestFinished(() => engine.transport.close());
  return { ...engine, worker, transfers, chunks };
}

/** P and D with one clock, connected. */
export function makeNodes(
  options: { p?: TestEngineOptions; d?: TestEngineOptions; config?: Partial<NixlConfig> } = {},
) {
  const clock = new TestClock();
  const p = makeNode('prefill', clock, options.p, options.config);
  const d = makeNode('decode-engine', clock, options.d, options.config);
  connect(p, d);
  return { clock, p, d };
}

export function metadata(parts: Partial<NixlMetadata>): NixlMetadata {
  return {
    reqsToRecv: new Map(),
    reqsToSend: new Map(),
    reqsInBatch: new Set(),
    reqsNotProcessed: new Set(),
    computed: new Map(),
    reqsToCancel: new Set(),
    refused: [],
    heartbeats: [],
    ...parts,
  };
}

/** Every sequence here has the tokens 0, 1, 2, ... */
export const claimOf = (numTokens: number, cacheSalt: string | null = null): PrefixClaim =>
  claimPrefix(true)(range(0, numTokens), numTokens, cacheSalt);

/** By request id: the blocks that were last held under it. */
const lastHeld = new Map<string, number[]>();

/** The claim needed to read a hold of full blocks up to block `last`. Default: to its end. */
export function claimTo(requestId: string, last?: number): ReadClaim {
  const blockIds = lastHeld.get(requestId) ?? [];
  const read = last === undefined ? blockIds.length : blockIds.indexOf(last) + 1;
  return { held: claimOf(16 * blockIds.length), prompt: claimOf(16 * read) };
}

export function sends(
  requestId: string,
  blockIds: number[],
  send: Pick<SendRequest, 'direction' | 'deadline'>,
): Map<string, SendRequest> {
  lastHeld.set(requestId, blockIds);
  const tokenIds = range(0, 16 * blockIds.length);
  return new Map([[requestId, { blockIds: [blockIds], tokenIds, cacheSalt: null, ...send }]]);
}

export function hold(
  node: Node,
  requestId: string,
  blockIds: number[],
  send: Pick<SendRequest, 'direction' | 'deadline'>,
) {
  node.worker.startLoadKv(metadata({ reqsInBatch: new Set([requestId]) }));
  node.worker.startLoadKv(metadata({ reqsToSend: sends(requestId, blockIds, send) }));
}

export function pull(
  node: Node,
  from: TestEngine,
  requestId: string,
  pairs: BlockPair[],
  remote: Partial<RecvRequest['remote']> = {},
) {
  const held = remote.requestId ?? `${requestId}@${from.address.engineId}`;
  const recv: RecvRequest = {
    remote: {
      ...from.address,
      requestId: held,
      claim: claimTo(held, pairs.at(-1)?.remote),
      blocksExpiryTime: null,
      ...remote,
    },
    pairs,
    numTokens: pairs.length * 16,
  };
  node.worker.startLoadKv(
    metadata({ reqsToRecv: new Map([[requestId, recv]]), reqsInBatch: new Set([requestId]) }),
  );
}

/** Waits for a change, then polls getFinished as a step loop does. */
export async function nextOutput(node: Node): Promise<ConnectorOutput> {
  await node.worker.waitForChange(NEVER);
  await turns();
  return node.worker.getFinished();
}
export const nothing: ConnectorOutput = {
  finishedSending: [],
  finishedRecving: [],
  failedRecving: [],
  changed: false,
};
export const lease = (clock: Pick<TestClock, 'now'>) => ({
  direction: 'prefill' as const,
  deadline: clock.now() + LEASE_MS,
});
export const ttl = (clock: TestClock) => ({ direction: 'decode' as const, deadline: clock.now() + TTL_MS });
