/**
 * Tracks the remote holds to keep alive: those whose blocks a local request has yet to pull. Only D sends heartbeats, for P's
 * holds, every sixth of the lease (as in vLLM's NIXL connector). D's own holds have a plain TTL.
 */
import type { HoldRef, RemoteAddress } from '../../transport/types.ts';
import type { NixlMetadata } from './metadata.ts';
import type { RemoteRequest } from './params.ts';

export class Heartbeats {
  readonly #intervalMs: number;
  readonly #tracked = new Map<string, RemoteRequest & HoldRef>();
  #lastMs = Number.NEGATIVE_INFINITY;

  constructor(leaseMs: number) {
    this.#intervalMs = leaseMs / 6;
  }

  track(requestId: string, remote: RemoteRequest & HoldRef): void {
    this.#tracked.set(requestId, remote);
  }

  untrack(requestId: string): void {
    this.#tracked.delete(requestId);
  }

  /** When the next heartbeats are due, ms on the engine's clock; null while nothing is tracked. */
  get dueMs(): number | null {
    return this.#tracked.size > 0 ? this.#lastMs + this.#intervalMs : null;
  }

  /** The heartbeats to send now, by holder. Empty before they are due. */
  take(now: number): NixlMetadata['heartbeats'] {
    if (this.dueMs === null || now < this.dueMs) return [];
    this.#lastMs = now;
    const byHolder = new Map<string, { remote: RemoteAddress; holds: HoldRef[] }>();
    for (const { requestId, held, engineId, host, port } of this.#tracked.values()) {
      const key = `${host} ${port} ${engineId}`;
      const entry = byHolder.get(key) ?? { remote: { engineId, host, port }, holds: [] };
      entry.holds.push({ requestId, held });
      byHolder.set(key, entry);
    }
    return [...byHolder.values()];
  }
}
