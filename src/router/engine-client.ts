/**
 * An engine as the router sees it. Behind the interface is a thread (src/fleet/thread-engine.ts), a test's fake or a
 * simulated engine; the router cannot tell which. Starting, inspecting and measuring engines are not part of it.
 */
import type { TokenIds } from '../config/token-ids.ts';
import type { CacheLookup } from '../engine/inspect/cache-lookup.ts';
import type { EngineRequest } from '../engine/types.ts';
import type { RemoteAddress } from '../transport/types.ts';
import type { OutputStream } from './output-stream.ts';

/** What an engine is intended for. Any engine can prefill or decode; a plan says which one does. */
export type EngineRole = 'prefill' | 'decode';

/**
 * What the router did before it sent a request, and since when (milliseconds on the shared clock). Recorded as a
 * span.
 */
export interface RouterWork {
  name: 'accept' | 'hand over';
  sinceMs: number;
}

export interface EngineClient {
  /** Identifies one life of an engine. A replacement gets a new id, and holds nothing of what the old one held. */
  readonly engineId: string;
  readonly role: EngineRole;
  /** The group of P and D that it belongs to. Absent: there is only one group. */
  readonly roleset?: string;
  /** Serves whole turns where no P and D can. Absent: false. */
  readonly combined?: boolean;
  /** Where other engines reach it. */
  readonly address: RemoteAddress;
  readonly load: {
    /** Requests submitted here that have not ended. */
    readonly inFlight: number;
  };
  /** Why it no longer serves; null while it serves. */
  readonly ended: Error | null;
  /**
   * Resolves when the engine has accepted the request. Outputs come through the stream, which fails if the engine
   * ends. Rejects with RequestError if the request cannot be served or its id is in use, and with EngineDeadError if
   * the engine has ended.
   */
  submit(request: EngineRequest, work?: RouterWork): Promise<OutputStream>;
  /**
   * Ends the request as if it had sampled a stop token: its last output still comes. Safe for an unknown id and an
   * ended engine.
   */
  stop(requestId: string): Promise<void>;
  /** Ends the request without further output. Safe for an unknown id and an ended engine. */
  abort(requestId: string): Promise<void>;
  /** Frees what ended requests hold for a reader. Safe for unknown ids and an ended engine. */
  release(requestIds: readonly string[]): Promise<void>;
  /** What the engine has of a sequence. Schedules and runs nothing. Rejects if the engine has ended. */
  lookup(tokenIds: TokenIds, cacheSalt: string | null): Promise<CacheLookup>;
  /** Makes cached blocks of the sequence beyond its first keepTokens tokens unfindable. Safe for an ended engine. */
  forgetPrefix(tokenIds: TokenIds, cacheSalt: string | null, keepTokens: number): Promise<void>;
}
