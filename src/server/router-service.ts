/** The router on its port: conversations over all P and D engines, with failover when an engine fails. */
import type { EngineCluster } from '../fleet/cluster.ts';
import type { GenerateRequest } from '../router/turn-types.ts';
import { HttpError } from './http/http-error.ts';
import type {
  AnswerPiece,
  GenerationRequest,
  Prompt,
  RouterService,
  ServedModel,
  TextTools,
} from './service.ts';

export class ClusterService implements RouterService {
  readonly kind = 'router';
  readonly name = 'router';
  readonly model: ServedModel;
  readonly text: TextTools;
  readonly maxNumSeqs: number;
  readonly cluster: EngineCluster;

  constructor(cluster: EngineCluster, model: ServedModel, text: TextTools) {
    this.cluster = cluster;
    this.model = model;
    this.text = text;
    this.maxNumSeqs = cluster.settings.maxNumSeqs;
  }

  /** Healthy while any engine is alive: one engine can serve every turn. */
  unhealthy(): string | null {
    const dead = this.cluster.engines.every(({ ended }) => ended);
    return dead ? 'every engine ended; they are being restarted' : null;
  }

  async *generate(request: GenerationRequest): AsyncGenerator<AnswerPiece> {
    const { requestId: _, prompt, kvTransferParams, ...asked } = request;
    if (kvTransferParams !== null) {
      throw new HttpError(
        400,
        'kv_transfer_params is for the ports of P and D: the router sets it itself; leave it out',
        'kv_transfer_params',
      );
    }
    const encode = (text: string) => this.text.encode(text, request.signal);
    const turn = { ...sourceOf(prompt), ...asked, encode };
    const tokens = this.cluster.generate({ ...turn, findConversation: true, failover: true });
    for await (const { tokenId, text, logits, atMs, final } of tokens) {
      const piece = { tokenId, text, logits, atMs };
      if (!final) {
        yield { ...piece, final: null };
        continue;
      }
      const { finishReason, stopReason = null, prompt, transfer } = final;
      const storedTokens = Math.min(prompt.pulledTokens, transfer.storeToP?.tokens ?? 0);
      if (finishReason === 'abort' || finishReason === 'error')
        throw new HttpError(503, 'the server aborted the request: send it again');
      yield { ...piece, final: { finishReason, stopReason, prompt, storedTokens, kvTransferParams: null } };
    }
  }
}

/** The prompt as the router's request fields. */
export function sourceOf(
  prompt: Prompt,
): Pick<GenerateRequest, 'messages' | 'promptEnd' | 'promptText' | 'promptTokenIds'> {
  switch (prompt.kind) {
    case 'messages':
      return { messages: prompt.messages, promptEnd: prompt.end };
    case 'text':
      return { promptText: prompt.text };
    case 'tokens':
      return { promptTokenIds: prompt.tokenIds };
  }
}
