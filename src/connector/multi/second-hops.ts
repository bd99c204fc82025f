/**
 * Counts bytes that travel twice in a turn: from the store to P and then from P to D, although D could load them from the
 * store; or from P to the store and on to D, although D could pull them from P. P's parameters for D say how many tokens the
 * store had before P began.
 */
import type { ConnectorRequest } from '../../engine/kv-connector.ts';
import { type BlockIds, NULL_BLOCK } from '../../engine/types.ts';

export interface SecondHopDeps {
  blockSize: number;
  /** Bytes of a block, by group. */
  blockBytes: readonly number[];
  /** Tokens that the store had when the request was looked up; null if it was not asked. */
  storedTokens: (requestId: string) => number | null;
}

export class SecondHops {
  bytes = 0;
  readonly #deps: SecondHopDeps;
  /** Pulling requests: the bytes of the pull that the store had before. */
  readonly #pulling = new Map<string, number>();

  constructor(deps: SecondHopDeps) {
    this.#deps = deps;
  }

  /** Tokens of the request that the store had before; null if it was not asked. */
  stored(requestId: string): number | null {
    return this.#deps.storedTokens(requestId);
  }

  /** Tokens that may come from the store without a second hop. */
  storedBefore({ kvTransferParams: params }: ConnectorRequest): number {
    if (!params?.do_remote_prefill) return Number.POSITIVE_INFINITY;
    return params.remote_store_num_tokens ?? Number.POSITIVE_INFINITY;
  }

  /** A pull from a peer into this table starts at token `from`. */
  pulls({ requestId, kvTransferParams: params }: ConnectorRequest, from: number, table: BlockIds): void {
    const stored = params?.do_remote_prefill ? (params.remote_store_num_tokens ?? 0) : 0;
    const { blockSize, blockBytes } = this.#deps;
    const first = Math.floor(from / blockSize);
    const end = first + Math.floor((stored - from) / blockSize);
    if (end <= first) return;
    const bytes = table.map(
      (ids, group) => ids.slice(first, end).filter((id) => id !== NULL_BLOCK).length * blockBytes[group]!,
    );
    this.#pulling.set(
      requestId,
      bytes.reduce((sum, one) => sum + one, 0),
    );
  }

  /** A pull from a peer ended. `succeeded`: successfully. */
  pulled(requestId: string, succeeded: boolean): void {
    const bytes = this.#pulling.get(requestId);
    if (bytes === undefined) return;
    this.#pulling.delete(requestId);
    if (succeeded) this.bytes += bytes;
  }
}
