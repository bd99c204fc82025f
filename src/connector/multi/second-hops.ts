/**
 * Which bytes travel twice in a turn: by P from the store and then from P to D, though the store has them; or from P to the
 * store and from there to D, though P has them. P tells D what the store had before it began, in its parameters.
 */
import type { ConnectorRequest } from '../../engine/kv-connector.ts';

export interface SecondHopDeps {
  blockSize: number;
  /** Bytes of a block, of all groups. */
  blockBytes: number;
  /** Tokens that the store had when the request was looked up; null: it was not asked. */
  storedTokens: (requestId: string) => number | null;
}

export class SecondHops {
  bytes = 0;
  readonly #deps: SecondHopDeps;
  /** Requests that pull, with the tokens of it that the store had before. */
  readonly #pulling = new Map<string, number>();

  constructor(deps: SecondHopDeps) {
    this.#deps = deps;
  }

  /** Tokens of the request that the store had before; null: it was not asked. */
  stored(requestId: string): number | null {
    return this.#deps.storedTokens(requestId);
  }

  /** Tokens that may come from the store without a second hop. */
  storedBefore({ kvTransferParams: params }: ConnectorRequest): number {
    if (!params?.do_remote_prefill) return Number.POSITIVE_INFINITY;
    return params.remote_store_num_tokens ?? Number.POSITIVE_INFINITY;
  }

  /** A pull from a peer begins at this token. */
  pulls({ requestId, kvTransferParams: params }: ConnectorRequest, from: number): void {
    const stored = params?.do_remote_prefill ? (params.remote_store_num_tokens ?? 0) : 0;
    if (stored > from) this.#pulling.set(requestId, stored - from);
  }

  /** A pull from a peer ended; bytes came. */
  pulled(requestId: string, came: boolean): void {
    const tokens = this.#pulling.get(requestId);
    if (tokens === undefined) return;
    this.#pulling.delete(requestId);
    const { blockSize, blockBytes } = this.#deps;
    if (came) this.bytes += Math.floor(tokens / blockSize) * blockBytes;
  }
}
