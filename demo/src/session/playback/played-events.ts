/** The events of a session or a recording, ordered by the time at which they are shown, and the turns among them. */
import { STORE_ADDRESS } from '../../../../src/config/connectors.ts';
import { isConversation } from '../conversation/conversation.ts';
import type { SessionEvent } from '../types.ts';

/** Duration from the turn's start to its first token, when shown slowly. */
const FIRST_TOKEN_SHOWN_MS = 4000;
/** Least duration of a stage before the first token, so that its headline can be read. */
export const STAGE_SHOWN_MS = 1500;
/** Duration from one token to the next, when shown slowly. */
const TOKEN_SHOWN_MS = 60;
const SLOWEST = 1 / 1000;
/** Smaller than the resolution of event times. */
const JUST_BEFORE_MS = 1e-6;
/** Limit of a session's events, about an hour of chatting. Later events are not kept. */
export const MOST_EVENTS = 200_000;

interface Turn {
  turnId: string;
  slow: boolean;
  startMs: number;
  firstMs: number | null;
  lastMs: number;
  tokens: number;
  endMs: number | null;
  /** When copies began or ended during the turn. */
  beats: number[];
  /** When a stage began that has its own headline. */
  stages: number[];
}

export class Timeline {
  readonly #events: SessionEvent[] = [];
  readonly #turns: Turn[] = [];
  /** When a turn began or a conversation ended. */
  readonly #changes: { atMs: number; ends: boolean }[] = [];
  /** Ends of copies. */
  readonly #ends: { requestId: string; atMs: number }[] = [];
  readonly #most: number;

  constructor(most = Number.POSITIVE_INFINITY) {
    this.#most = most;
  }

  get length(): number {
    return this.#events.length;
  }

  get full(): boolean {
    return this.#events.length >= this.#most;
  }

  get startMs(): number {
    return this.#events[0] ? this.shownMs(this.#events[0]) : 0;
  }

  get endMs(): number {
    const last = this.#events.at(-1);
    return last ? this.shownMs(last) : 0;
  }

  at(index: number): SessionEvent | undefined {
    return this.#events[index];
  }

  shownMs(event: SessionEvent): number {
    return event.kind === 'spans' ? event.spans[0]!.startMs : event.atMs;
  }

  /**
   * Inserts an event. Spans arrive in bunches after they ended; each is inserted on its own. Returns what was inserted, in
   * that order, with its index at that moment: what follows may be inserted before it.
   */
  add(event: SessionEvent): { event: SessionEvent; place: number }[] {
    this.#hear(event);
    if (event.kind !== 'spans') return [this.#insert(event)];
    return event.spans.map((span) => this.#insert({ ...event, spans: [span] }));
  }

  #insert(event: SessionEvent): { event: SessionEvent; place: number } {
    const atMs = this.shownMs(event);
    let place = this.#events.length;
    while (place > 0 && this.shownMs(this.#events[place - 1]!) > atMs) place--;
    if (!this.full) this.#events.splice(place, 0, event);
    return { event, place };
  }

  /** All events, with spans in the bunches in which they arrived. */
  told(): SessionEvent[] {
    const bunches = new Map<number, Extract<SessionEvent, { kind: 'spans' }>>();
    return this.#events.flatMap((event): SessionEvent[] => {
      if (event.kind !== 'spans') return [event];
      const bunch = bunches.get(event.atMs);
      if (bunch) {
        bunch.spans.push(...event.spans);
        return [];
      }
      const first = { ...event, spans: [...event.spans] };
      bunches.set(event.atMs, first);
      return [first];
    });
  }

  /** When a copy ended; null while it runs. */
  endOf({ requestId, startMs }: { requestId: string; startMs: number }): number | null {
    const end = this.#ends.find((one) => one.requestId === requestId && one.atMs >= startMs);
    return end?.atMs ?? null;
  }

  isShownSlowly(turnId: string): boolean {
    return this.#turns.findLast((turn) => turn.turnId === turnId)?.slow ?? false;
  }

  get turnUnderWay(): boolean {
    return this.#turns.some(({ endMs }) => endMs === null);
  }

  /** The last turn. Empty when the log is full: replaying it could not return to the present. */
  get lastTurn(): { startMs: number; endMs: number } {
    const last = this.full ? undefined : this.#turns.findLast(({ slow }) => slow);
    return last ? { startMs: last.startMs, endMs: last.endMs ?? last.lastMs } : { startMs: 0, endMs: 0 };
  }

  /** The turn that runs at a time. */
  turnAt(atMs: number): Turn | null {
    return (
      this.#turns.findLast(
        ({ startMs, endMs, slow }) => slow && startMs <= atMs && (endMs ?? Infinity) > atMs,
      ) ?? null
    );
  }

  /** When the next turn begins; Infinity if there is none. */
  turnAfter(atMs: number): number {
    const starts = this.#turns.filter(({ slow, startMs }) => slow && startMs > atMs);
    return Math.min(...starts.map(({ startMs }) => startMs));
  }

  /** Whether a measurement's turn runs at a time. */
  isMeasuring(atMs: number): boolean {
    return this.#turns.some(
      ({ startMs, endMs, slow }) => !slow && startMs <= atMs && (endMs ?? Infinity) > atMs,
    );
  }

  /** Playback speed at a time; 0 (standing still) until it is known how long the first token takes. */
  speedAt({ startMs, firstMs, lastMs, tokens, endMs, stages }: Turn, atMs: number): number {
    const firstOrEnd = firstMs ?? endMs;
    if (firstOrEnd === null) return 0;
    const paceOf = (tookMs: number, shownMs: number) => Math.min(1, Math.max(SLOWEST, tookMs / shownMs));
    if (atMs < firstOrEnd || tokens < 2) {
      const from = Math.max(startMs, ...stages.filter((stageMs) => stageMs <= atMs));
      const to = Math.min(firstOrEnd, ...stages.filter((stageMs) => stageMs > atMs));
      return Math.min(
        paceOf(firstOrEnd - startMs, FIRST_TOKEN_SHOWN_MS),
        paceOf(Math.max(0, to - from), STAGE_SHOWN_MS),
      );
    }
    return paceOf((lastMs - firstOrEnd) / (tokens - 1), TOKEN_SHOWN_MS);
  }

  /** The next event to step to: a turn's start, its copies' starts and ends, its first token, its end. */
  beatAfter(atMs: number): number | null {
    const beats = this.#turns
      .filter(({ slow }) => slow)
      .flatMap(({ startMs, firstMs, endMs, beats: copies }) => [startMs, ...copies, firstMs, endMs])
      .filter((beat): beat is number => beat !== null && beat > atMs + 0.01);
    return beats.length > 0 ? Math.min(...beats) : null;
  }

  turnEndAfter(atMs: number): number | null {
    const ends = this.#turns
      .map(({ endMs }) => endMs ?? Number.POSITIVE_INFINITY)
      .filter((endMs) => endMs > atMs);
    return ends.length > 0 ? Math.min(...ends) : null;
  }

  /** The next time with something to read that the following event removes: a finished turn, or an empty conversation. */
  restAfter(atMs: number): number | null {
    for (const [i, change] of this.#changes.entries()) {
      const restMs = change.atMs - JUST_BEFORE_MS;
      const before = this.#changes[i - 1];
      // Conversations that end together count once.
      if (restMs <= atMs || !before || (change.ends && before.ends)) continue;
      if (this.turnAt(restMs) === null) return restMs;
    }
    return null;
  }

  #hear(event: SessionEvent): void {
    const ends = event.kind === 'conversation_ended';
    if ((ends || event.kind === 'turn_started') && isConversation(event))
      this.#changes.push({ atMs: event.atMs, ends });
    if (event.kind === 'turn_started') {
      const { turnId, atMs } = event;
      // Races and sweeps are shown as they happen.
      const slow = isConversation(event);
      const none = { firstMs: null, lastMs: atMs, tokens: 0, endMs: null, beats: [], stages: [] };
      this.#turns.push({ turnId, slow, startMs: atMs, ...none });
      return;
    }
    if (event.kind === 'transfer_started' || event.kind === 'transfer_ended') {
      const turn = this.turnAt(event.atMs);
      turn?.beats.push(event.atMs);
      // Saves run in the background, and the end of the handover has no headline before the first token.
      const told =
        event.to !== STORE_ADDRESS.engineId &&
        (event.kind === 'transfer_started' || event.side === 'prefill');
      if (told) turn?.stages.push(event.atMs);
      if (event.kind === 'transfer_ended') this.#ends.push({ requestId: event.requestId, atMs: event.atMs });
      return;
    }
    if (event.kind !== 'token' && event.kind !== 'turn_ended' && event.kind !== 'turn_failed') return;
    const turn = this.#turns.findLast(({ turnId }) => turnId === event.turnId);
    if (!turn) return;
    turn.lastMs = event.atMs;
    if (event.kind === 'token') {
      turn.firstMs ??= event.atMs;
      turn.tokens++;
    } else turn.endMs = event.atMs;
  }
}
