/**
 * Lines (or conversations) of a trace that cannot be used: the first one ends the reading, or all are skipped, counted
 * and named.
 */
import { ConfigError } from '../../errors.ts';

const MOST_NAMED = 5;

export class BadLines {
  readonly #source: string;
  readonly #skip: boolean;
  readonly #named: string[] = [];
  #count = 0;
  /** Unit of places in messages. */
  unit: 'line' | 'conversation' = 'line';

  constructor(source: string, skip: boolean) {
    this.#source = source;
    this.#skip = skip;
  }

  get count(): number {
    return this.#count;
  }

  /** Throws ConfigError unless bad lines are skipped. */
  refuse(line: number, what: string): void {
    if (!this.#skip)
      throw new ConfigError(
        `${this.#source}, ${this.unit} ${line}: ${what}; --skip-bad skips such ${this.unit}s`,
      );
    this.#count++;
    if (this.#named.length < MOST_NAMED) this.#named.push(`${this.unit} ${line}: ${what}`);
  }

  /** For reports; null: there were none. */
  describe(): string | null {
    if (this.#count === 0) return null;
    const more = this.#count - this.#named.length;
    const rest = more > 0 ? `; and ${more} more` : '';
    const all = this.#count === 1 ? `1 bad ${this.unit}` : `${this.#count} bad ${this.unit}s`;
    return `${all} skipped: ${this.#named.join('; ')}${rest}.`;
  }
}
