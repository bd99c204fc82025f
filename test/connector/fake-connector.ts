/** A connector that answers as the test tells it to, and records its calls. */
import type { KvTransferParams } from '../../src/config/kv-transfer.ts';
import type {
  ConnectorOutput,
  ConnectorRequest,
  ExternalMatch,
  KvConnector,
} from '../../src/engine/kv-connector.ts';
import { tokens } from '../engine/fakes.ts';

export const requestOf = (params: Partial<KvTransferParams> | null = null): ConnectorRequest => ({
  ...{ requestId: 'r', promptTokenIds: tokens(100), allTokenIds: tokens(100), numComputedTokens: 0 },
  ...{ kvTransferParams: params as KvTransferParams | null, cacheSalt: null, status: 'running' },
  blockHashes: () => [],
});

type Answer = number | null | { noPull: string };

/** `upTo`: the token up to which it can load, regardless of the local hit; null: it does not know yet. */
export class FakeConnector implements KvConnector {
  readonly calls: string[] = [];
  upTo: Answer = 0;
  dueMs: number | null = null;
  left: { delayFree: boolean; kvTransferParams: KvTransferParams | null } = {
    delayFree: false,
    kvTransferParams: null,
  };
  output: Partial<ConnectorOutput> = {};
  readonly metas: unknown[] = [];
  change: () => void = () => {};
  signal: AbortSignal | null = null;
  readonly streams?: NonNullable<KvConnector['streams']>;
  readonly #name: string;

  constructor(name: string, { streams = false, refused = false } = {}) {
    this.#name = name;
    if (streams) {
      this.streams = {
        requestComputed: () => void this.calls.push('computed'),
        requestPreempted: () => void this.calls.push('preempted'),
      };
    }
    if (refused)
      this.scheduler = { ...this.scheduler, requestRefused: () => void this.calls.push('refused') };
  }

  readonly scheduler: KvConnector['scheduler'] = {
    onNewRequest: () => void this.calls.push('new'),
    getNumNewMatchedTokens: (_, numComputed): ExternalMatch | null => {
      this.calls.push(`asked from ${numComputed}`);
      if (this.upTo === null) return null;
      if (typeof this.upTo === 'number')
        return { tokens: Math.max(0, this.upTo - numComputed), noPull: null };
      return { tokens: 0, noPull: { by: 'offer', reason: this.upTo.noPull } };
    },
    updateStateAfterAlloc: (_, __, from, count) => void this.calls.push(`loads ${count} from ${from}`),
    buildConnectorMeta: () => this.#name,
    metaDueMs: () => this.dueMs,
    updateConnectorOutput: () => void this.calls.push('output'),
    requestFinished: () => this.left,
  };

  readonly worker: KvConnector['worker'] = {
    startLoadKv: (meta) => void this.metas.push(meta),
    getFinished: () => {
      const taken = this.output;
      this.output = {};
      return { finishedSending: [], finishedRecving: [], failedRecving: [], changed: false, ...taken };
    },
    waitForChange: (signal) => {
      this.signal = signal;
      return new Promise((resolve) => {
        this.change = resolve;
      });
    },
  };
}
