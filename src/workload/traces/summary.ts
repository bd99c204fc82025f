/** Summarises a trace: lengths, times, conversations, and what can be reused. Keeps a few numbers a request. */
import { quantileSorted } from 'simple-statistics';
import { sum } from '../../sum.ts';
import { contentKind } from './content.ts';
import { IdSet } from './ids.ts';
import type { TraceRequest, TraceTurn } from './types.ts';

export interface Spread {
  mean: number;
  p50: number;
  p90: number;
  p99: number;
  max: number;
}

export interface TraceSummary {
  requests: number;
  conversations: number;
  /** Turns that follow another one. */
  follow_ups: number;
  deepest_turn: number;
  /** Requests with a time of their own; the others arrive a delay after an answer. */
  timed_requests: number;
  /** From the first arrival to the last, as in the trace; null: it has no times. */
  duration_s: number | null;
  /** null: not all have a time. */
  requests_per_second: number | null;
  /** Requests for each distinct time, among those that have one: far above 1 means bursts. */
  requests_per_timestamp: number | null;
  input_tokens: Spread;
  output_tokens: Spread;
  total_input_tokens: number;
  total_output_tokens: number;
  blocks: { in_prompts: number; different: number } | null;
  /** Reuse if nothing is ever evicted and every turn is over before the next: shares of all prompt tokens. */
  reuse_bound: {
    /** Tokens that were in earlier prompts. */
    from_prompts: number;
    /** Tokens that earlier turns generated, and that were in no prompt before. */
    from_answers: number;
  };
  /** Figures of the turns that follow another one; null: there are none. */
  follow_up: {
    /** Seconds between the arrivals of a turn and of the one it follows; null without times. */
    gap_s: { p50: number; p90: number } | null;
    /** Tokens of the prompt that D generated, and those that no engine had. Means. */
    generated_tokens: number;
    new_tokens: number;
    /** Median share of generated tokens among those that P has not computed before; null: P lacks nothing. */
    generated_share: number | null;
  } | null;
}

export class TraceMeter {
  readonly #input: number[] = [];
  readonly #output: number[] = [];
  readonly #gapsMs: number[] = [];
  /** Arrivals by index, of requests that have a time. */
  readonly #arrivedMs: number[] = [];
  readonly #generated: number[] = [];
  readonly #fresh: number[] = [];
  readonly #shares: number[] = [];
  /** Contents that earlier prompts contained. */
  readonly #had = new IdSet();
  readonly #hashIds = new IdSet();
  #conversations = 0;
  #deepest = 0;
  /** Requests that have a time. */
  #timed = 0;
  #lastMs: number | null = null;
  #blocks = 0;
  #different = 0;
  #fromPrompts = 0;
  #fromAnswers = 0;

  get requests(): number {
    return this.#input.length;
  }

  /** Adds a turn and the request that it was made from, in the trace's order and not scaled. */
  add(turn: TraceTurn, { arrivalMs, hashIds }: TraceRequest): void {
    const { arrival, inputTokens } = turn;
    this.#input.push(inputTokens);
    this.#output.push(turn.outputTokens);
    this.#deepest = Math.max(this.#deepest, turn.turn);
    if (arrival.kind === 'at') this.#conversations++;
    if (arrivalMs !== null) {
      this.#timed++;
      this.#lastMs = Math.max(this.#lastMs ?? 0, arrivalMs);
      this.#arrivedMs[turn.index] = arrivalMs;
    }
    for (const id of hashIds ?? []) {
      this.#blocks++;
      if (!this.#hashIds.has(id)) this.#different++;
      this.#hashIds.add(id);
    }
    const { prompts, answers } = this.#known(turn);
    this.#fromPrompts += prompts;
    this.#fromAnswers += answers;
    if (arrival.kind === 'at') return;
    const beforeMs = this.#arrivedMs[arrival.index];
    if (arrivalMs !== null && beforeMs !== undefined) this.#gapsMs.push(arrivalMs - beforeMs);
    this.#generated.push(answers);
    this.#fresh.push(inputTokens - prompts - answers);
    if (inputTokens > prompts) this.#shares.push(answers / (inputTokens - prompts));
  }

  summary(): TraceSummary {
    const { requests } = this;
    const seconds = this.#lastMs === null ? null : this.#lastMs / 1000;
    const timestamps = differentIn(this.#arrivedMs);
    const gaps = this.#gapsMs.toSorted((a, b) => a - b);
    const allInput = sum(this.#input);
    return {
      requests,
      conversations: this.#conversations,
      follow_ups: requests - this.#conversations,
      deepest_turn: this.#deepest,
      timed_requests: this.#timed,
      duration_s: seconds,
      requests_per_second:
        seconds !== null && seconds > 0 && this.#timed === requests ? requests / seconds : null,
      requests_per_timestamp: timestamps > 0 ? this.#timed / timestamps : null,
      input_tokens: spread(this.#input),
      output_tokens: spread(this.#output),
      total_input_tokens: allInput,
      total_output_tokens: sum(this.#output),
      blocks: this.#blocks > 0 ? { in_prompts: this.#blocks, different: this.#different } : null,
      reuse_bound: {
        from_prompts: this.#fromPrompts / allInput,
        from_answers: this.#fromAnswers / allInput,
      },
      follow_up:
        this.#generated.length === 0
          ? null
          : {
              gap_s:
                gaps.length === 0
                  ? null
                  : { p50: quantileSorted(gaps, 0.5) / 1000, p90: quantileSorted(gaps, 0.9) / 1000 },
              generated_tokens: sum(this.#generated) / this.#generated.length,
              new_tokens: sum(this.#fresh) / this.#fresh.length,
              generated_share:
                this.#shares.length === 0
                  ? null
                  : quantileSorted(
                      this.#shares.toSorted((a, b) => a - b),
                      0.5,
                    ),
            },
    };
  }

  /** Counts the tokens of the prompt's beginning that existed before; then everything in the prompt counts as known. */
  #known({ prompt }: TraceTurn): { prompts: number; answers: number } {
    const found = { prompts: 0, answers: 0 };
    let known = true;
    for (const segment of prompt) {
      const had = this.#had.has(segment.key);
      const generated = contentKind(segment) === 'answer';
      known &&= had || generated;
      if (known) found[had ? 'prompts' : 'answers'] += segment.length;
    }
    for (const { key } of prompt) this.#had.add(key);
    return found;
  }
}

/** Number of different values; a set of them would have a largest size. */
function differentIn(values: readonly number[]): number {
  // A sparse list: requests without a time have no place in it.
  const sorted = Float64Array.from(values.filter(() => true)).sort();
  return sorted.reduce((count, value, i) => count + Number(i === 0 || value !== sorted[i - 1]), 0);
}

function spread(numbers: readonly number[]): Spread {
  const sorted = numbers.toSorted((a, b) => a - b);
  const at = (q: number): number => Math.round(quantileSorted(sorted, q));
  return {
    mean: sum(numbers) / numbers.length,
    p50: at(0.5),
    p90: at(0.9),
    p99: at(0.99),
    max: sorted.at(-1)!,
  };
}
