/** An EngineClient that computes its tokens by arithmetic. A test decides what it holds and when it fails. */

import type { KvTransferParams } from '../../src/config/kv-transfer.ts';
import { written } from '../../src/config/token-ids.ts';
import type { EngineRequest, RequestOutput } from '../../src/engine/types.ts';
import { EngineDeadError } from '../../src/errors.ts';
import type { EngineClient, EngineRole } from '../../src/router/engine-client.ts';
import { OutputStream } from '../../src/router/output-stream.ts';

const VOCAB = 97;

/** The token that every engine generates at `index` after this prompt. */
export const answerOf = (promptTokenIds: readonly number[], index: number): number =>
  promptTokenIds.reduce((sum, id, i) => (sum * 31 + id * (i + 1)) % VOCAB, 7 * index + 1) % VOCAB;

export class FakeEngine implements EngineClient {
  readonly engineId: string;
  readonly role: EngineRole;
  readonly address: EngineClient['address'];
  ended: Error | null = null;
  /** All submitted requests, oldest first. */
  readonly requests: EngineRequest[] = [];
  readonly aborted: string[] = [];
  readonly stopped: string[] = [];
  readonly released: string[] = [];
  /** Ids of the requests whose blocks it holds for a reader. */
  readonly holds = new Set<string>();
  /** Called before each token: an error message fails the request, 'ends' ends the engine. */
  fails: (requestId: string, index: number) => string | 'ends' | null = () => null;
  /** Awaited before each token. */
  pace: () => Promise<void> = async () => {};
  readonly #streams = new Map<string, OutputStream>();

  constructor(engineId: string, role: EngineRole) {
    this.engineId = engineId;
    this.role = role;
    this.address = { engineId, host: 'localhost', port: 5600 };
  }

  get load() {
    return { inFlight: this.#streams.size };
  }

  async submit(request: EngineRequest): Promise<OutputStream> {
    if (this.ended) throw this.ended;
    const stream = new OutputStream(request.requestId);
    this.requests.push(request);
    this.#streams.set(request.requestId, stream);
    void this.#generate(request, stream);
    return stream;
  }

  async stop(requestId: string): Promise<void> {
    this.stopped.push(requestId);
  }

  async abort(requestId: string): Promise<void> {
    this.aborted.push(requestId);
    this.#streams.delete(requestId);
  }

  async release(requestIds: readonly string[]): Promise<void> {
    this.released.push(...requestIds);
    for (const id of requestIds) this.holds.delete(id);
  }

  lookup = async () => {
    throw new Error('nobody looks here');
  };

  forgetPrefix = async () => {};

  end(): void {
    this.ended = new EngineDeadError(`${this.engineId} ended`);
    for (const stream of this.#streams.values()) stream.fail(this.ended);
    this.#streams.clear();
  }

  async #generate(request: EngineRequest, stream: OutputStream): Promise<void> {
    const { requestId, promptTokenIds, sampling, kvTransferParams } = request;
    const held = kvTransferParams?.remote_num_tokens ?? 0;
    const promptTokens = promptTokenIds.length;
    const pulledTokens = Math.min(held, promptTokens - 1);
    const prompt = {
      promptTokens,
      localHitTokens: 0,
      pulledTokens,
      computedTokens: promptTokens - pulledTokens,
      noPull: null,
    };
    for (let index = 0; index < sampling.maxTokens; index++) {
      await this.pace();
      if (!this.#streams.has(requestId)) return;
      const failure = this.fails(requestId, index);
      if (failure === 'ends') return this.end();
      const last = index === sampling.maxTokens - 1 || this.stopped.includes(requestId);
      const params = last && failure === null ? this.#hold(request) : null;
      const reason = failure ? 'error' : this.stopped.includes(requestId) ? 'stop' : 'length';
      const error = failure === null ? null : { code: 'transfer' as const, message: failure };
      const finish = { reason, error, kvTransferParams: params, numPreemptions: 0 } as const;
      const token = {
        requestId,
        tokenId: answerOf(written(promptTokenIds), index),
        logitsDigest: '',
        logits: null,
      };
      const output: RequestOutput = {
        requestId,
        tokens: failure ? [] : [token],
        prompt,
        times: { arrivalMs: 0, queuedMs: 0, scheduledMs: 0 },
        finish: failure || last ? finish : null,
      };
      if (output.finish) this.#streams.delete(requestId);
      stream.push(output, index);
      if (output.finish) return;
    }
  }

  /** Holds the request's blocks and returns their parameters as an engine would; null for a request without transfers. */
  #hold({ requestId, promptTokenIds, sampling, kvTransferParams }: EngineRequest): KvTransferParams | null {
    if (!kvTransferParams) return null;
    this.holds.add(requestId);
    const forDecode = kvTransferParams.do_remote_decode;
    return {
      do_remote_prefill: forDecode,
      do_remote_decode: !forDecode,
      remote_engine_id: this.engineId,
      remote_request_id: requestId,
      remote_num_tokens: promptTokenIds.length + sampling.maxTokens - 1,
    };
  }
}
