/**
 * An engine as whoever routes sees it. Behind it stands a thread (src/fleet/thread-engine.ts), a test's fake, or a
 * simulated engine; who routes cannot tell which. Says nothing of how an engine is started, looked into or measured.
 */
import type { TokenIds } from '../config/token-ids.ts';
import type { CacheLookup } from '../engine/inspect/cache-lookup.ts';
import type { EngineRequest } from '../engine/types.ts';
import type { RemoteAddress } from '../transport/types.ts';
import type { OutputStream } from './output-stream.ts';

/** What an engine is there for. A request can be prefilled or decoded by any: a plan says by which. */
export type EngineRole = 'prefill' | 'decode';

/** What the router did before it sent a request, and since when on the shared clock: for a span. */
export interface RouterWork {
  name: 'accept' | 'hand over';
  sinceMs: number;
}

export interface EngineClient {
  /** One life of an engine: what takes the place of one that ended has another id, and nothing of what that one held. */
  readonly engineId: string;
  readonly role: EngineRole;
  /** The group of P and D that it belongs to; absent: the one that all are in. */
  readonly roleset?: string;
  /** It serves whole turns, where no P and D can; absent: it does not. */
  readonly combined?: boolean;
  /** Where other engines reach it. */
  readonly address: RemoteAddress;
  readonly load: {
    /** Requests that were submitted here and have not ended. */
    readonly inFlight: number;
  };
  /** Why it serves no more; null while it does. */
  readonly ended: Error | null;
  /**
   * Resolves when the engine took the request; its outputs then come through the stream, which fails when the engine
   * ends. Rejects with RequestError for a request that cannot be served or an id that is in use, EngineDeadError when
   * the engine ended.
   */
  submit(request: EngineRequest, work?: RouterWork): Promise<OutputStream>;
  /** As if the request had sampled a stop token: its last output still comes. Safe for an unknown id, or an ended engine. */
  stop(requestId: string): Promise<void>;
  /** Nothing more comes. Safe for an unknown id, or an ended engine. */
  abort(requestId: string): Promise<void>;
  /** Frees what ended requests left for a reader. Safe for unknown ids, or an ended engine. */
  release(requestIds: readonly string[]): Promise<void>;
  /** What it has of a sequence: schedules and runs nothing. Rejects when the engine ended. */
  lookup(tokenIds: TokenIds, cacheSalt: string | null): Promise<CacheLookup>;
  /** What is cached of the sequence beyond its first keepTokens is found no more. Safe for an ended engine. */
  forgetPrefix(tokenIds: TokenIds, cacheSalt: string | null, keepTokens: number): Promise<void>;
}
