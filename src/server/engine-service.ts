/**
 * An engine on its own port, like vLLM's P and D instances: one HTTP request is one engine request, and kv_transfer_params
 * travel in the request and the response.
 */
import { z } from 'zod';
import { kvTransferParamsSchema } from '../config/kv-transfer.ts';
import { EngineDeadError, InternalError } from '../errors.ts';
import { callWithTimeout } from '../fleet/call-with-timeout.ts';
import type { EngineCluster } from '../fleet/cluster.ts';
import type { ThreadEngine } from '../fleet/thread-engine.ts';
import { systemClock } from '../platform/clock.ts';
import { readAnswer } from '../router/answer.ts';
import type { EngineClient } from '../router/engine-client.ts';
import { requestOutputs } from '../router/turn-outputs.ts';
import { sumOf } from '../sum.ts';
import type { HostNames } from './host-names.ts';
import { comeBack, HttpError, isRetryLater, noAnswer } from './http/http-error.ts';
import { atPeer, checkKvParams } from './kv/kv-params.ts';
import type { AnswerPiece, EngineService, GenerationRequest, ServedModel, TextTools } from './service.ts';
import { promptTokens } from './text/text-tools.ts';

/** The parts of a body that say which blocks the request was to read. */
const refusedOffer = z.object({
  kv_transfer_params: kvTransferParamsSchema.optional(),
  // As in vLLM's /inference/v1/generate.
  sampling_params: z
    .object({
      extra_args: z.object({ kv_transfer_params: kvTransferParamsSchema.optional() }).nullish(),
    })
    .nullish()
    .catch(null),
  cache_salt: z
    .string()
    .nullish()
    .transform((salt) => salt ?? null),
});

export class OneEngineService implements EngineService {
  readonly kind = 'engine';
  readonly name: string;
  readonly model: ServedModel;
  readonly text: TextTools;
  readonly maxNumSeqs: number;
  readonly #cluster: EngineCluster;
  readonly #names: HostNames;
  readonly #clientOf: (engine: ThreadEngine) => EngineClient;

  /** `name`: the engine's name (decode-0), kept when it is replaced; `clientOf`: the client for requests to an engine. */
  constructor(
    cluster: EngineCluster,
    name: string,
    model: ServedModel,
    text: TextTools,
    names: HostNames,
    clientOf: (engine: ThreadEngine) => EngineClient,
  ) {
    this.#names = names;
    this.#clientOf = clientOf;
    this.#cluster = cluster;
    this.model = model;
    this.text = text;
    this.name = name;
    this.maxNumSeqs = cluster.settings.maxNumSeqs;
  }

  engine(): ThreadEngine {
    const engine = this.#cluster.engines.find(({ name }) => name === this.name);
    // The port is closing, but a request may still arrive on it.
    if (!engine) throw new EngineDeadError(`engine ${this.name} has left the fleet: use another engine`);
    return engine;
  }

  async resetPrefixCache(): Promise<boolean> {
    const engine = this.engine();
    const reset = await callWithTimeout(engine, () => engine.serving.resetPrefixCache(), systemClock);
    if (reset === undefined) throw noAnswer(engine.engineId);
    return reset;
  }

  unhealthy(): string | null {
    if (this.#cluster.members.isLeaving(this.engine())) return `engine ${this.name} is leaving the fleet`;
    return this.engine().ended ? `engine ${this.name} ended and is being restarted` : null;
  }

  noteHost(host: string): void {
    this.#names.noteHost(this.name, host);
  }

  refused(body: unknown): void {
    const asked = refusedOffer.safeParse(body).data;
    const offer = asked?.kv_transfer_params ?? asked?.sampling_params?.extra_args?.kv_transfer_params;
    if (!asked || !offer || (offer.remote_token_ids ?? []).length > this.model.maxModelLen) return;
    const kvTransferParams = atPeer(offer, this.#peers());
    const cacheSalt = asked.cache_salt;
    this.engine()
      .serving.refuseRequest({ promptTokenIds: [], kvTransferParams, cacheSalt })
      .catch(() => {});
  }

  async #checked(request: GenerationRequest) {
    const { kvTransferParams: clientParams, onPrompt, signal } = request;
    const promptTokenIds = await promptTokens(this.text, request, signal);
    onPrompt(promptTokenIds);
    const recompute = this.#cluster.settings.connector.loadFailurePolicy === 'recompute';
    const rule = { peers: this.#peers(), names: this.#names, recompute };
    return { promptTokenIds, kvTransferParams: clientParams && checkKvParams(clientParams, rule) };
  }

  #peers(): ThreadEngine[] {
    return this.#cluster.engines.filter((other) => other !== this.engine());
  }

  async *generate(request: GenerationRequest): AsyncGenerator<AnswerPiece> {
    const engine = this.engine();
    // A request that reads from the other engine is the second half of a turn in progress; it is still served.
    if (this.#cluster.members.isLeaving(engine) && request.kvTransferParams?.do_remote_prefill !== true)
      throw comeBack(`engine ${this.name} is leaving the fleet: use another engine`);
    void request.received.then(this.#cluster.keep(engine.engineId));
    const { requestId, sampling, cacheSalt, signal, skipSpecialTokens } = request;
    const { promptTokenIds, kvTransferParams } = await this.#checked(request).catch((error: unknown) => {
      if (!isRetryLater(error))
        this.refused({ kv_transfer_params: request.kvTransferParams, cache_salt: cacheSalt });
      throw error;
    });
    const stopping = new AbortController();
    const outputs = requestOutputs(
      this.#clientOf(engine),
      { requestId, promptTokenIds, sampling, kvTransferParams, cacheSalt },
      { signal, stopped: stopping.signal },
    );
    const read = { storedTokens: 0 };
    const answer = readAnswer(counted(outputs, read), {
      decoder: this.#cluster.text.tokenizer.streamDecoder({ skipSpecialTokens, after: promptTokenIds }),
      eosTokenIds: this.model.eosTokenIds,
      stop: request.stop,
      includeStop: request.includeStop,
      minTokens: sampling.minTokens,
      onStop: () => stopping.abort(),
    });
    for await (const { token, text, atMs, end } of answer) {
      const { tokenId, logits } = token;
      const piece = { tokenId, text, logits, atMs };
      if (!end) {
        yield { ...piece, final: null };
        continue;
      }
      const { reason, stopReason, prompt, finish } = end;
      if (reason === 'abort') throw new HttpError(503, 'the server aborted the request: send it again');
      if (reason === 'error' || !prompt)
        throw new InternalError(`${requestId} ended without a prompt account`);
      const storedTokens = Math.min(prompt.pulledTokens, read.storedTokens);
      const { kvTransferParams } = finish;
      yield { ...piece, final: { finishReason: reason, stopReason, prompt, storedTokens, kvTransferParams } };
    }
  }
}

/** Passes the outputs on. Sets `read` to the tokens loaded from a store for the request before the last output. */
async function* counted(
  outputs: ReturnType<typeof requestOutputs>,
  read: { storedTokens: number },
): typeof outputs {
  for await (const received of outputs) {
    if (received.output.finish)
      read.storedTokens = sumOf(received.loads, ({ outcome, tokens = 0 }) =>
        outcome === 'done' ? tokens : 0,
      );
    yield received;
  }
}
