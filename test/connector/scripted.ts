/** One engine with the real scheduler side, and a worker side that the test controls: no peer, no bytes. */
import type { ConnectorConfig, KvTransferParams, NixlConfig } from '../../src/config/kv-transfer.ts';
import type { NixlMetadata, RecvRequest, SendRequest } from '../../src/connector/nixl/metadata.ts';
import { NixlSchedulerSide } from '../../src/connector/nixl/scheduler-side.ts';
import type { EngineCoreDeps } from '../../src/engine/engine-core.ts';
import type {
  ConnectorHolds,
  ConnectorOutput,
  KvConnectorWorker,
  Pressure,
  TransferOutcome,
} from '../../src/engine/kv-connector.ts';
import { TestClock } from '../clock.ts';
import { engineConfig, request, type Sizes, TestEngine, tokens } from '../engine/fakes.ts';

const BS = 16;

export const connectorDefaults: ConnectorConfig = {
  name: 'NixlConnector',
  loadFailurePolicy: 'fail',
  nixl: {
    bidirectional: true,
    recomputeThreshold: 0,
    decoderTtlMs: 480_000,
    leaseMs: 30_000,
    enforceHandshakeCompat: true,
    tokenCheck: true,
  },
};

/** Settings that a test changes. */
export type Changes = Partial<NixlConfig & Omit<ConnectorConfig, 'nixl'>>;

export function connectorWith({
  name,
  loadFailurePolicy,
  offloading,
  multi,
  ...nixl
}: Changes): ConnectorConfig {
  return {
    name: name ?? connectorDefaults.name,
    loadFailurePolicy: loadFailurePolicy ?? 'fail',
    nixl: { ...connectorDefaults.nixl, ...nixl },
    ...(offloading ? { offloading } : {}),
    ...(multi ? { multi } : {}),
  };
}

export class ScriptedWorker implements KvConnectorWorker<NixlMetadata>, ConnectorHolds {
  readonly metadata: NixlMetadata[] = [];
  readonly sending = new Map<string, SendRequest & { reading: boolean }>();
  readonly dropped: string[] = [];
  /** The pressures under which the engine asked to drop a hold. */
  readonly pressures: Pressure[] = [];
  #output = empty();
  #wake: () => void = () => {};

  startLoadKv(metadata: NixlMetadata): void {
    this.metadata.push(metadata);
    for (const [id, send] of metadata.reqsToSend) this.sending.set(id, { ...send, reading: false });
  }

  getFinished(): ConnectorOutput {
    const output = this.#output;
    this.#output = empty();
    return output;
  }

  dropOldest(pressure: Pressure): string | null {
    this.pressures.push(pressure);
    for (const [id, hold] of this.sending) {
      if (hold.direction === 'prefill' || hold.reading) continue;
      this.finishSending(id);
      this.dropped.push(id);
      return id;
    }
    return null;
  }

  release(requestId: string): void {
    if (this.sending.has(requestId)) this.finishSending(requestId);
  }

  list() {
    return [...this.sending].map(([requestId, hold]) => ({ requestId, ...hold }));
  }

  waitForChange(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  finishSending(requestId: string): void {
    this.sending.delete(requestId);
    this.#output.finishedSending.push(requestId);
    this.#wake();
  }

  /** Nothing ended, but a hold may now be dropped that could not be before. */
  change(): void {
    this.#output.changed = true;
    this.#wake();
  }

  finishRecving(requestId: string): void {
    this.#output.finishedRecving.push(requestId);
    this.#wake();
  }

  failRecving(requestId: string, outcome: TransferOutcome, invalidBlockIds: number[]): void {
    const message = 'the test says so';
    this.#output.failedRecving.push({ requestId, outcome, message, invalidBlockIds: [invalidBlockIds] });
    this.finishRecving(requestId);
  }

  /** The last pull of this request; null if there was none. */
  recv(requestId: string): RecvRequest | null {
    return this.metadata.findLast((m) => m.reqsToRecv.has(requestId))?.reqsToRecv.get(requestId) ?? null;
  }
}

function empty() {
  return {
    finishedSending: [] as string[],
    finishedRecving: [] as string[],
    failedRecving: [] as ConnectorOutput['failedRecving'][number][],
    changed: false,
  };
}

export class ScriptedEngine extends TestEngine {
  readonly worker: ScriptedWorker;
  readonly clock: TestClock;

  constructor(sizes: Sizes = {}, changes: Changes = {}, rest: Partial<EngineCoreDeps> = {}) {
    const settings = connectorWith(changes);
    const config = { ...engineConfig(sizes), connector: settings };
    const clock = new TestClock();
    const worker = new ScriptedWorker();
    const scheduler = new NixlSchedulerSide({
      config: settings.nixl,
      engineId: config.engineId,
      host: config.host,
      port: config.port,
      blockSize: config.cache.blockSize,
      groups: config.cache.groups,
      clock,
    });
    super(config, { connector: { scheduler, worker, holds: worker, streams: scheduler }, clock, ...rest });
    this.worker = worker;
    this.clock = clock;
  }

  /** The pull's blocks come: all of them, or only the first numBlocks. */
  arrive(requestId: string, numBlocks = Number.POSITIVE_INFINITY): void {
    const recv = this.worker.recv(requestId)!;
    const local = recv.pairs.slice(0, numBlocks).map((pair) => pair.local);
    const { blockIds, numComputedTokens } = this.core.inspect.requestState(requestId)!;
    this.model.arrive(requestId, blockIds, local, numComputedTokens);
  }

  /** The pull succeeds. */
  receive(requestId: string): void {
    this.arrive(requestId);
    this.worker.finishRecving(requestId);
  }

  status(requestId: string): string | null {
    return this.core.inspect.requestState(requestId)?.status ?? null;
  }

  computed(requestId: string): number | null {
    return this.core.inspect.requestState(requestId)?.numComputedTokens ?? null;
  }

  blocks(requestId: string): readonly number[] {
    return this.core.inspect.requestState(requestId)?.blockIds[0] ?? [];
  }

  get isEmpty(): boolean {
    return !this.core.hasWork() && this.core.inspect.stats().usedBlocks === 0;
  }
}

/** Parameters that the other engine left: it has numTokens of these tokens, in blocks 901, 902, ... */
function remote(tokenIds: readonly number[], overrides: Partial<KvTransferParams> = {}): KvTransferParams {
  const numTokens = overrides.remote_num_tokens ?? tokenIds.length;
  return {
    do_remote_decode: false,
    do_remote_prefill: false,
    remote_block_ids: [Array.from({ length: Math.ceil(numTokens / BS) }, (_, i) => 901 + i)],
    remote_engine_id: 'decode-engine',
    remote_request_id: 'remote-request',
    remote_host: 'localhost',
    remote_port: 5601,
    tp_size: 1,
    remote_num_tokens: numTokens,
    remote_token_ids: tokenIds.slice(0, numTokens),
    ...overrides,
  };
}

/** A P node's request: one token, blocks held for D. `remoteTokens`: the tokens that D holds; null: none. */
export function prefillRequest(
  id: string,
  prompt: readonly number[],
  remoteTokens: readonly number[] | null,
  overrides: Partial<KvTransferParams> = {},
) {
  const params = remoteTokens ? remote(remoteTokens, overrides) : { do_remote_prefill: false, ...overrides };
  return request(id, prompt, { maxTokens: 1 }, { kvTransferParams: { ...params, do_remote_decode: true } });
}

/** A D node's request: P has all of the prompt. */
export function decodeRequest(
  id: string,
  prompt: readonly number[],
  maxTokens = 4,
  overrides: Partial<KvTransferParams> = {},
) {
  const params = remote(prompt, { remote_engine_id: 'prefill-engine', ...overrides });
  return request(id, prompt, { maxTokens }, { kvTransferParams: { ...params, do_remote_prefill: true } });
}

export { tokens };
