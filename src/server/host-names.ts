/**
 * By which names this machine's engines go: its own, and for each engine those that its port was asked under, since a
 * proxy writes the name by which it reaches an engine over the one that the engine told (through a forwarded port, say).
 */
import { bare, isOwnName } from './door.ts';

/** Of an engine; a further one is not kept. */
const MOST_NAMES = 32;

export class HostNames {
  readonly #own: readonly string[];
  readonly #asked = new Map<string, Set<string>>();

  /** `own`: beside loopback's; '*': any. */
  constructor(own: readonly string[]) {
    this.#own = own;
  }

  /** The engine's port was asked, and answered: `host` is the header's. */
  askedUnder(engine: string, host: string): void {
    const names = this.#asked.get(engine) ?? new Set();
    if (names.size < MOST_NAMES) this.#asked.set(engine, names.add(bare(host)));
  }

  /** Whether the engine may be called by this name; null: whether any may. */
  has(engine: string | null, host: string): boolean {
    const asked = engine === null ? [...this.#asked.values()] : [this.#asked.get(engine)];
    return isOwnName(host, this.#own) || asked.some((names) => names?.has(bare(host)));
  }
}
