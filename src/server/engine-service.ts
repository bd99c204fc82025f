/** An engine on a port of its own, as vLLM's P and D instances are: one request is one request to the engine, and kv_transfer_params come and go with it. */
import { InternalError } from '../errors.ts';
import type { EngineCluster } from '../fleet/cluster.ts';
import type { ThreadEngine } from '../fleet/thread-engine.ts';
import { readAnswer } from '../router/answer.ts';
import type { EngineRole } from '../router/engine-client.ts';
import { requestOutputs } from '../router/ways.ts';
import { HttpError } from './http-error.ts';
import { checkKvParams } from './kv-params.ts';
import type { AnswerPiece, EngineService, GenerationRequest, ServedModel, TextTools } from './service.ts';
import { promptTokens } from './text-tools.ts';

export class OneEngineService implements EngineService {
  readonly kind = 'engine';
  readonly name: string;
  readonly model: ServedModel;
  readonly text: TextTools;
  readonly maxNumSeqs: number;
  readonly #cluster: EngineCluster;
  readonly #role: EngineRole;

  constructor(cluster: EngineCluster, role: EngineRole, model: ServedModel, text: TextTools) {
    this.#cluster = cluster;
    this.#role = role;
    this.model = model;
    this.text = text;
    this.name = cluster.engine(role).engineId;
    this.maxNumSeqs = cluster.settings.maxNumSeqs;
  }

  engine(): ThreadEngine {
    return this.#cluster.engine(this.#role);
  }

  async resetPrefixCache(): Promise<boolean> {
    return this.engine().serving.resetPrefixCache();
  }

  unhealthy(): string | null {
    return this.engine().ended ? `engine ${this.name} ended and is being started again` : null;
  }

  async *generate(request: GenerationRequest): AsyncGenerator<AnswerPiece> {
    const engine = this.engine();
    const { requestId, sampling, cacheSalt, signal } = request;
    const promptTokenIds = await promptTokens(this.text, request.prompt, signal);
    request.onPrompt(promptTokenIds);
    const peers = this.#cluster.engines.filter((other) => other !== engine);
    const given = request.kvTransferParams;
    const kvTransferParams = given && checkKvParams(given, peers);
    const stopping = new AbortController();
    const outputs = requestOutputs(
      engine,
      { requestId, promptTokenIds, sampling, kvTransferParams, cacheSalt },
      { signal, stopped: stopping.signal },
    );
    const answer = readAnswer(outputs, {
      decoder: this.#cluster.text.tokenizer.streamDecoder(),
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
      if (reason === 'abort') throw new HttpError(503, 'the request was ended by the server');
      if (reason === 'error' || !prompt)
        throw new InternalError(`${requestId} ended without a prompt account`);
      const final = { finishReason: reason, stopReason, prompt, kvTransferParams: finish.kvTransferParams };
      yield { ...piece, final };
    }
  }
}
