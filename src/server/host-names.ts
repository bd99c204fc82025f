/**
 * The host names that kv_transfer_params may use for this machine's engines: the machine's own names, and for each engine the
 * names in the Host headers of its requests. A proxy replaces the remote_host that an engine reported with the name by which
 * the proxy reaches it (through a forwarded port, for example).
 */
import { bare, isOwnName } from './http/host-check.ts';

/** Most names recorded per engine: those used last, so that a client's made-up ones do not keep out a proxy's. */
const MOST_NAMES = 32;

export class HostNames {
  readonly #own: readonly string[];
  readonly #asked = new Map<string, Set<string>>();

  /** `own`: names in addition to the loopback names; '*': any. */
  constructor(own: readonly string[]) {
    this.#own = own;
  }

  /** Records the Host header of a request to the engine's port. */
  noteHost(engine: string, host: string): void {
    const names = this.#asked.get(engine) ?? new Set();
    const name = bare(host);
    names.delete(name);
    this.#asked.set(engine, names.add(name));
    const [oldest] = names;
    if (names.size > MOST_NAMES) names.delete(oldest!);
  }

  /** Whether `host` is a known name of the engine; null: of any engine. */
  has(engine: string | null, host: string): boolean {
    const asked = engine === null ? [...this.#asked.values()] : [this.#asked.get(engine)];
    return isOwnName(host, this.#own) || asked.some((names) => names?.has(bare(host)));
  }
}
