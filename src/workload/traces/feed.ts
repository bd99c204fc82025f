/**
 * The turns of a trace as they become due. It says when each is due, but has no clock: the caller reports when answers
 * ended. It reads ahead far enough to find the turns that follow one that is over, and no further, so memory is
 * bounded.
 */
import type { TraceTurn } from './types.ts';

export interface DueTurn {
  turn: TraceTurn;
  /** Milliseconds since the trace began; in the past if the turns before it were slow. */
  atMs: number;
}

/** Turns with a time of their own that are read in advance, to find turns that soon follow an earlier one. */
export const LOOK_AHEAD = 4096;
/** As many as TurnMaker remembers. */
const MOST_ENDED = 1 << 18;

export class TraceFeed {
  readonly #turns: AsyncIterator<TraceTurn>;
  readonly #lookAhead: number;
  /** Turns whose time is known, earliest first: a binary heap. */
  readonly #due: DueTurn[] = [];
  /** Turns in #due with a time of their own: while there is one, no unread turn is due before it. */
  #ownTimes = 0;
  /** Turns whose predecessor is not over yet, by its index. */
  readonly #waiting = new Map<number, TraceTurn[]>();
  /** Turns that were read and are not over. */
  readonly #open = new Set<number>();
  /** When the last turns were over: one that is read later may follow them. */
  readonly #ended = new Map<number, number>();
  /** Their indices, as a ring buffer: to find a Map's first key, V8 passes all deleted entries. */
  readonly #lastEnded: number[] = [];
  #numEnded = 0;
  /** Latest time of a turn that was handed out. */
  #reachedMs = 0;
  #late = 0;
  #readAll = false;

  /** `lookAhead`: Infinity reads everything at once, and no turn is late. */
  constructor(turns: AsyncIterable<TraceTurn>, lookAhead: number = LOOK_AHEAD) {
    this.#turns = turns[Symbol.asyncIterator]();
    this.#lookAhead = lookAhead;
  }

  /** Whether fill() has something to do; if not, it need not be awaited. */
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

  /** When the earliest turn is due, ms; null: none is until another one ends. */
  get nextMs(): number | null {
    return this.#due[0]?.atMs ?? null;
  }

  /** Whether all turns were read and handed out, and are over. */
  get finished(): boolean {
    return this.#readAll && this.#open.size === 0;
  }

  /** Turns that were read after they were due, so far behind the turns that they follow do they stand. */
  get late(): number {
    return this.#late;
  }

  /** Hands out the earliest turn; null: none is known. The caller reports its end with ended(). */
  next(): DueTurn | null {
    const first = this.#due[0];
    if (!first) return null;
    const last = this.#due.pop()!;
    if (this.#due.length > 0) {
      this.#due[0] = last;
      this.#sink();
    }
    if (first.turn.arrival.kind === 'at') this.#ownTimes--;
    this.#reachedMs = Math.max(this.#reachedMs, first.atMs);
    return first;
  }

  /** The last token of a turn came, or none will: turns that follow it are due after their think times. */
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
      const endedMs = this.#ended.get(arrival.index) ?? 0;
      if (endedMs + arrival.thinkMs < this.#reachedMs) this.#late++;
      this.#add(turn, endedMs);
      return;
    }
    const followers = this.#waiting.get(arrival.index);
    if (followers) followers.push(turn);
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

/** Turns with the same time keep the trace's order. */
const before = (a: DueTurn, b: DueTurn): boolean =>
  a.atMs < b.atMs || (a.atMs === b.atMs && a.turn.index < b.turn.index);
