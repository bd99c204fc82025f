/** One engine with the real scheduler side, and a worker side that does what the test says: no peer, no bytes. */
import type { ConnectorConfig, KvTransferParams } from '../../src/config/kv-transfer.ts';
import { NixlSchedulerSide } from '../../src/connector/nixl/scheduler-side.ts';
import type {
  ConnectorMetadata,
  ConnectorOutput,
  KvConnectorWorker,
  RecvRequest,
  SendRequest,
  TransferOutcome,
} from '../../src/engine/kv-connector.ts';
import { engineConfig, request, type Sizes, TestClock, TestEngine, tokens } from '../engine/fakes.ts';

const BS = 16;

export const connectorDefaults: ConnectorConfig = {
  bidirectional: true,
  recomputeThreshold: 0,
  decoderTtlMs: 480_000,
  leaseMs: 30_000,
  loadFailurePolicy: 'fail',
  enforceHandshakeCompat: true,
  tokenCheck: true,
};

export class ScriptedWorker implements KvConnectorWorker {
  readonly metadata: ConnectorMetadata[] = [];
  readonly sending = new Map<string, SendRequest & { reading: boolean }>();
  readonly dropped: string[] = [];
  #output = empty();
  #wake: () => void = () => {};

  startLoadKv(metadata: ConnectorMetadata): void {
    this.metadata.push(metadata);
    for (const [id, send] of metadata.reqsToSend) this.sending.set(id, { ...send, reading: false });
  }

  getFinished(): ConnectorOutput {
    const output = this.#output;
    this.#output = empty();
    return output;
  }

  dropOldestHold(direction: 'prefill' | 'decode'): string | null {
    for (const [id, hold] of this.sending) {
      if (hold.direction !== direction || hold.reading) continue;
      this.finishSending(id);
      this.dropped.push(id);
      return id;
    }
    return null;
  }

  streamStarves(): boolean {
    return false;
  }

  releaseHold(requestId: string): void {
    if (this.sending.has(requestId)) this.finishSending(requestId);
  }

  holds() {
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

  finishRecving(requestId: string): void {
    this.#output.finishedRecving.push(requestId);
    this.#wake();
  }

  failRecving(requestId: string, outcome: TransferOutcome, invalidBlockIds: number[]): void {
    const message = 'the test says so';
    this.#output.failedRecving.push({ requestId, outcome, message, invalidBlockIds: [invalidBlockIds] });
    this.finishRecving(requestId);
  }

  /** The last recv of this request. */
  recv(requestId: string): RecvRequest | null {
    return this.metadata.findLast((m) => m.reqsToRecv.has(requestId))?.reqsToRecv.get(requestId) ?? null;
  }
}

function empty() {
  return {
    finishedSending: [] as string[],
    finishedRecving: [] as string[],
    failedRecving: [] as ConnectorOutput['failedRecving'][number][],
  };
}

export class ScriptedEngine extends TestEngine {
  readonly worker: ScriptedWorker;
  readonly clock: TestClock;

  constructor(sizes: Sizes = {}, connector: Partial<ConnectorConfig> = {}) {
    const settings = { ...connectorDefaults, ...connector };
    const config = { ...engineConfig(sizes), connector: settings };
    const clock = new TestClock();
    const worker = new ScriptedWorker();
    const scheduler = new NixlSchedulerSide({
      config: settings,
      engineId: config.engineId,
      host: config.host,
      port: config.port,
      blockSize: config.cache.blockSize,
      clock,
    });
    super(config, { connector: { scheduler, worker }, clock });
    this.worker = worker;
    this.clock = clock;
  }

  /** The pull's blocks come, all of them or only the first few. */
  arrive(requestId: string, numBlocks = Number.POSITIVE_INFINITY): void {
    const recv = this.worker.recv(requestId)!;
    const local = recv.pairs.slice(0, numBlocks).map((pair) => pair.local);
    const { blockIds, numComputedTokens } = this.core.requestState(requestId)!;
    this.model.arrive(requestId, blockIds, local, numComputedTokens);
  }

  /** The pull ends well. */
  receive(requestId: string): void {
    this.arrive(requestId);
    this.worker.finishRecving(requestId);
  }

  status(requestId: string): string | null {
    return this.core.requestState(requestId)?.status ?? null;
  }

  computed(requestId: string): number | null {
    return this.core.requestState(requestId)?.numComputedTokens ?? null;
  }

  blocks(requestId: string): readonly number[] {
    return this.core.requestState(requestId)?.blockIds[0] ?? [];
  }

  get isEmpty(): boolean {
    return !this.core.hasWork() && this.core.stats().usedBlocks === 0;
  }
}

/** What the other engine left: numTokens of these tokens, in blocks 901, 902, ... */
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

/** A P node's request: one token, blocks held for D. `remoteTokens`: what D left of the last turn. */
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
