/**
 * Turns of a trace as they become due. Says when, and knows no clock: whoever serves them tells when answers ended. Reads
 * ahead so far that a turn whose earlier one is over is not missed, and no further: memory is bounded.
 */
import type { TraceTurn } from './types.ts';

export interface DueTurn {
  turn: TraceTurn;
  /** Milliseconds since the trace began; in the past where the turns before it were slow. */
  atMs: number;
}

/** Turns with a time of their own that are read before it, for those in a file that follow an earlier one soon. */
const LOOK_AHEAD = 4096;
/** As many as TurnMaker remembers. */
const MOST_ENDED = 1 << 18;

export class TraceFeed {
  readonly #turns: AsyncIterator<TraceTurn>;
  readonly #lookAhead: number;
  /** Known times, earliest first: a binary heap. */
  readonly #due: DueTurn[] = [];
  /** Of #due, those with a time of their own: while there is one, nothing unread comes before it. */
  #ownTimes = 0;
  /** Turns whose earlier one is not over yet, by that one's index. */
  readonly #waiting = new Map<number, TraceTurn[]>();
  /** Turns that were read and are not over. */
  readonly #open = new Set<number>();
  /** When the last ones were over: a turn that is read later may follow one. */
  readonly #ended = new Map<number, number>();
  /** Of these the last ones, round and round: a Map's first key is found past the places of all that were deleted. */
  readonly #lastEnded: number[] = [];
  #numEnded = 0;
  #readAll = false;

  constructor(turns: AsyncIterable<TraceTurn>, lookAhead: number = LOOK_AHEAD) {
    this.#turns = turns[Symbol.asyncIterator]();
    this.#lookAhead = lookAhead;
  }

  /** Whether fill() has something to do; when it has not, it need not be awaited. */
  get wantsFill(): boolean {
    return !this.#readAll && this.#ownTimes < this.#lookAhead;
  }

  /** Call before nextMs and next(): reads until the earliest turn is known. Throws what reading throws. */
  async fill(): Promise<void> {
    while (this.wantsFill) {
      const { done, value } = await this.#turns.next();
      if (done) this.#readAll = true;
      else this.#take(value);
    }
  }

  /** When the earliest turn is due; null: none is, before another one ends. */
  get nextMs(): number | null {
    return this.#due[0]?.atMs ?? null;
  }

  /** All was read, handed out, and is over. */
  get over(): boolean {
    return this.#readAll && this.#open.size === 0;
  }

  /** The earliest turn; null: none is known. The caller says with ended() when it is over. */
  next(): DueTurn | null {
    const first = this.#due[0];
    if (!first) return null;
    const last = this.#due.pop()!;
    if (this.#due.length > 0) {
      this.#due[0] = last;
      this.#sink();
    }
    if (first.turn.arrival.kind === 'at') this.#ownTimes--;
    return first;
  }

  /** The last token of a turn came, or nothing more will: what follows it comes after its think time. */
  ended(index: number, atMs: number): void {
    this.#open.delete(index);
    const followers = this.#waiting.get(index) ?? [];
    this.#waiting.delete(index);
    for (const turn of followers) this.#add(turn, atMs);
    this.#ended.set(index, atMs);
    const place = this.#numEnded++ % MOST_ENDED;
    if (this.#numEnded > MOST_ENDED) this.#ended.delete(this.#lastEnded[place]!);
    this.#lastEnded[place] = index;
  }

  #take(turn: TraceTurn): void {
    const { arrival } = turn;
    this.#open.add(turn.index);
    if (arrival.kind === 'at') {
      this.#ownTimes++;
      this.#add(turn, 0);
      return;
    }
    if (!this.#open.has(arrival.index)) {
      this.#add(turn, this.#ended.get(arrival.index) ?? 0);
      return;
    }
    const others = this.#waiting.get(arrival.index);
    if (others) others.push(turn);
    else this.#waiting.set(arrival.index, [turn]);
  }

  #add(turn: TraceTurn, endedMs: number): void {
    const { arrival } = turn;
    const atMs = arrival.kind === 'at' ? arrival.ms : endedMs + arrival.thinkMs;
    this.#due.push({ turn, atMs });
    this.#rise();
  }

  #rise(): void {
    const heap = this.#due;
    for (let at = heap.length - 1; at > 0; ) {
      const above = (at - 1) >> 1;
      if (!before(heap[at]!, heap[above]!)) return;
      [heap[at], heap[above]] = [heap[above]!, heap[at]!];
      at = above;
    }
  }

  #sink(): void {
    const heap = this.#due;
    for (let at = 0; ; ) {
      let least = at;
      for (const child of [2 * at + 1, 2 * at + 2])
        if (child < heap.length && before(heap[child]!, heap[least]!)) least = child;
      if (least === at) return;
      [heap[at], heap[least]] = [heap[least]!, heap[at]!];
      at = least;
    }
  }
}

/** At the same time in the trace's order. */
const before = (a: DueTurn, b: DueTurn): boolean =>
  a.atMs < b.atMs || (a.atMs === b.atMs && a.turn.index < b.turn.index);
