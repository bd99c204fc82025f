/**
 * SGLang's bucket policy (sgl-model-gateway, bucket.rs). Each P takes prompts in one range of lengths. Every few
 * seconds the ranges are adjusted so that each would have had the same number of tokens. An engine's load is the
 * tokens sent to it within that time, finished or not.
 */

interface Sent {
  engineId: string;
  tokens: number;
  atMs: number;
}

/** Upper end, in tokens, of the lengths over which ranges are spread before any prompt was seen. */
const FIRST_SPREAD = 4096;

export class Buckets {
  readonly #periodMs: number;
  readonly #sent: Sent[] = [];
  readonly #load = new Map<string, number>();
  /** The lengths that the current ranges were computed from, shortest first; null: none yet. */
  #basis: { lengths: readonly number[]; total: number } | null = null;
  /** The last length of each range, by number of ranges. */
  readonly #ranges = new Map<number, readonly number[]>();
  #adjustedMs: number | null = null;

  constructor(periodMs: number) {
    this.#periodMs = periodMs;
  }

  load(engineId: string): number {
    return this.#load.get(engineId) ?? 0;
  }

  /** Index of the range, out of `n`, that contains the length. */
  rangeOf(n: number, tokens: number): number {
    let upTo = this.#ranges.get(n);
    if (!upTo) {
      const from = this.#basis;
      upTo = from ? equalRanges(from.lengths, Math.floor(from.total / n), n) : firstRanges(n);
      this.#ranges.set(n, upTo);
    }
    return upTo.findIndex((last) => tokens <= last);
  }

  record(sent: Sent): void {
    this.#adjustedMs ??= sent.atMs;
    if (sent.atMs - this.#adjustedMs >= this.#periodMs) {
      this.#adjust();
      this.#adjustedMs = sent.atMs;
    }
    this.#sent.push(sent);
    this.#add(sent.engineId, sent.tokens);
    while (sent.atMs - this.#sent[0]!.atMs > this.#periodMs) {
      const old = this.#sent.shift()!;
      this.#add(old.engineId, -old.tokens);
    }
  }

  /** Ranges change only if the load has more than doubled or halved since they last did. */
  #adjust(): void {
    const lengths = this.#sent.map(({ tokens }) => tokens).sort((a, b) => a - b);
    const total = lengths.reduce((sum, tokens) => sum + tokens, 0);
    const before = this.#basis?.total ?? 0;
    if (total === 0 || (before > 0 && total <= 2 * before && before <= 2 * total)) return;
    this.#basis = { lengths, total };
    this.#ranges.clear();
  }

  #add(engineId: string, tokens: number): void {
    const load = this.load(engineId) + tokens;
    if (load > 0) this.#load.set(engineId, load);
    else this.#load.delete(engineId);
  }
}

function firstRanges(n: number): number[] {
  const gap = Math.floor(FIRST_SPREAD / n);
  return Array.from({ length: n }, (_, i) => (i === n - 1 ? Number.POSITIVE_INFINITY : (i + 1) * gap - 1));
}

/** The shortest lengths that sum to `mean` form the first range, and so on; the last range has no upper bound. */
export function equalRanges(lengths: readonly number[], mean: number, n: number): number[] {
  const upTo: number[] = [];
  let next = 0;
  for (let start = 0; upTo.length < n - 1; start = upTo.at(-1)! + 1) {
    let sum = 0;
    let last: number | null = null;
    while (next < lengths.length && last === null) {
      const length = lengths[next++]!;
      sum += length;
      if (sum >= mean) last = length;
    }
    // If one length fills several ranges, or no lengths are left, the range is `mean` tokens wide.
    upTo.push(last !== null && last > start ? last : start + mean);
  }
  return [...upTo, Number.POSITIVE_INFINITY];
}
