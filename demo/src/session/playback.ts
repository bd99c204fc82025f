/**
 * One clock for all that is shown: events become state at its time, and nothing before. Live it is the session's clock;
 * a slow turn runs behind it, a scrubbed one stands still, and a recording has nothing else.
 */
import type { Recording } from '../../../src/recording/events.ts';
import { Frames } from './frames.ts';
import { KeptPlaces } from './kept-places.ts';
import { withoutLesson, withoutOnlookers } from './onlooker.ts';
import { MOST_EVENTS, Timeline } from './played-events.ts';
import { READING_MS } from './reading.ts';
import { SPEEDS } from './settings.ts';
import { applyEvent, clearState, type WritableState } from './state.ts';
import type { SessionEvent, TimeView } from './types.ts';

/** What happens between turns is not worth a wait. */
const LONGEST_GAP_MS = 1200;
/** A race or a sweep takes a minute: nobody reads the time as it passes. */
const MEASURED_SPEED = 4;

export class Playback {
  readonly #state: WritableState;
  readonly #liveMs: () => number;
  readonly #places: KeptPlaces;
  readonly #frames = new Frames((elapsedMs) => this.#tick(elapsedMs));
  #events = new Timeline(MOST_EVENTS);
  /** Events before this one are in the state. */
  #next = 0;
  #atMs = 0;
  /** Shows what happens as it happens. */
  #follows = true;
  #playing = true;
  #recording: Recording | null = null;
  /** It is shown in place of engines; null: they could run. */
  #why: string | null = null;
  /** Wall milliseconds for which the clock still stands. */
  #restMs = 0;
  #waiting: (() => void)[] = [];

  constructor(state: WritableState, liveMs: () => number) {
    this.#state = state;
    this.#liveMs = liveMs;
    this.#places = new KeptPlaces(state);
  }

  /** What is shown happened then. */
  nowMs(): number {
    return this.#follows ? this.#liveMs() : this.#atMs;
  }

  endOf(transfer: { requestId: string; startMs: number }): number | null {
    return this.#follows ? null : this.#events.endOf(transfer);
  }

  get recording(): Recording | null {
    return this.#recording;
  }

  hear(event: SessionEvent): void {
    // Of engines that are built, of settings and of a recording's own notes nobody waits to hear.
    const atOnce = event.kind === 'status' && (event.phase === 'starting' || event.phase === 'failed');
    if (this.#recording) {
      applyEvent(this.#state, event);
      this.#show();
      return;
    }
    if (event.kind === 'settings') applyEvent(this.#state, event);
    if (atOnce || this.#events.full) this.toNow();
    const places = this.#events.add(event);
    if (this.#follows) {
      if (event.kind === 'turn_started') this.#places.keep(this.#next, event.atMs);
      this.#next = this.#events.length;
      this.#apply(event);
      const slowly = event.kind === 'turn_started' && this.#events.isShownSlowly(event.turnId);
      if (slowly && this.#chosen !== 1 && !this.#events.full) this.#fallBehind(event.atMs);
    } else {
      // What is told late, of a time that is shown already, is shown at once.
      for (const place of places) {
        if (place >= this.#next) continue;
        this.#next++;
        this.#apply(this.#events.at(place)!);
      }
    }
    this.#show();
  }

  /** What is said to whoever looks on, at once: of a turn that is shown later than it ran it is no part. */
  say(event: SessionEvent): void {
    if (this.#follows || this.#recording) this.hear(event);
    else applyEvent(this.#state, event);
  }

  /** Everything since the engines were built, for a recording; `cut`: what came later is not kept. */
  told(): { events: SessionEvent[]; cut: boolean } {
    return { events: this.#events.told(), cut: this.#events.full };
  }

  /** Begins anew: what was drawn before is gone with the engines that it came from. */
  forget(): void {
    this.toNow();
    this.#empty();
  }

  #empty(events = new Timeline(MOST_EVENTS)): void {
    this.#events = events;
    this.#places.forget();
    this.#next = 0;
  }

  /** From now on only this is shown. `why`: in place of engines, which cannot run; null: they could. */
  load(recording: Recording, why: string | null = null): void {
    this.pause();
    this.#recording = recording;
    this.#why = why;
    // All of it is in memory already.
    this.#empty(new Timeline());
    for (const event of recording.events) this.#events.add(withoutOnlookers(event));
    this.#follows = false;
    this.#atMs = this.#events.startMs;
    clearState(this.#state);
    this.#applyDue();
    this.#show();
  }

  /** Back to what happens now: nothing of the recording stays. */
  unload(): void {
    this.#recording = null;
    this.#empty();
    this.#catchUp();
    clearState(this.#state);
    this.#state.replay.value = null;
    this.#state.playing.value = false;
    this.#show();
  }

  play(): void {
    if (this.#follows || this.#playing) return;
    if (this.#recording && this.#next >= this.#events.length) this.#goTo(this.#events.startMs);
    this.#playing = true;
    this.#frames.run();
    this.#show();
  }

  /** Stands still; live, what goes on is kept. */
  pause(): void {
    if (this.#follows && !this.#recording) this.#fallBehind(this.#liveMs());
    this.#playing = false;
    this.#restMs = 0;
    this.#frames.stop();
    this.#show();
  }

  /** To what happens now; of a recording, to its end. */
  toNow(): void {
    if (this.#follows) return;
    this.#goTo(Number.POSITIVE_INFINITY);
    this.#catchUp();
    this.#show();
  }

  /** Resolves when all that happened is shown. */
  async caughtUp(): Promise<void> {
    if (!this.#follows && !this.#recording) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  /** Milliseconds from the start of what can be searched: the last turn, or a recording. Stands still there. */
  seek(atMs: number): void {
    const { startMs, endMs } = this.#range();
    this.pause();
    this.#goTo(Math.min(startMs + Math.max(0, atMs), endMs));
    this.#show();
  }

  /** To the next stage of the turn that is shown, or of the next one; stands still there. */
  step(): void {
    if (this.#follows) {
      // The last turn once more, from its start.
      this.seek(0);
      return;
    }
    this.pause();
    this.#goTo(this.#events.beatAfter(this.#atMs) ?? Number.POSITIVE_INFINITY);
    if (!this.#recording && this.#next >= this.#events.length) this.#catchUp();
    this.#show();
  }

  /** To the end of the turn that is shown, or of the next one. */
  stepTurn(): void {
    this.pause();
    this.#goTo(this.#events.turnEndAfter(this.#atMs) ?? Number.POSITIVE_INFINITY);
    this.#show();
  }

  #fallBehind(atMs: number): void {
    this.#follows = false;
    this.#playing = true;
    this.#atMs = atMs;
    this.#frames.run();
  }

  #catchUp(): void {
    // What is not kept any more cannot be shown later: it is shown as it happens.
    if (this.#recording || (this.#events.turnUnderWay && !this.#events.full)) return;
    this.#follows = true;
    this.#playing = true;
    this.#frames.stop();
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** True: it goes on. */
  #tick(elapsedMs: number): boolean {
    if (!this.#playing || this.#follows) return false;
    if (this.#restMs > 0) this.#restMs -= elapsedMs;
    else this.#move(elapsedMs);
    if (this.#next >= this.#events.length && !this.#events.turnUnderWay) {
      if (this.#recording) this.#playing = false;
      else this.#catchUp();
    }
    this.#show();
    return this.#playing && !this.#follows;
  }

  /** Onwards, but not past what ends the sight of a turn that ended, before it was read. */
  #move(elapsedMs: number): void {
    const to = this.#moved(elapsedMs);
    const end = this.#recording && this.#chosen === null ? this.#events.restAfter(this.#atMs) : null;
    if (end === null || to < end) {
      this.#goTo(to);
      return;
    }
    this.#goTo(end);
    this.#restMs = READING_MS;
  }

  /** Where the clock is after so many milliseconds of the wall's. */
  #moved(elapsedMs: number): number {
    const speed = this.#speed();
    // However long a frame is, a turn that is to be followed is seen from its beginning.
    const begins = this.#chosen === null ? this.#events.turnAfter(this.#atMs) : Number.POSITIVE_INFINITY;
    const moved = Math.min(this.#atMs + elapsedMs * speed, begins);
    const next = this.#events.at(this.#next);
    if (!this.#recording && !next) return Math.min(moved, this.#liveMs());
    const gap = next && !this.#events.turnAt(this.#atMs) ? next.atMs - this.#atMs : 0;
    return gap > LONGEST_GAP_MS
      ? next!.atMs - LONGEST_GAP_MS
      : Math.min(moved, this.#recording ? moved : this.#liveMs());
  }

  /** null: as slow as it takes to be followed. */
  get #chosen(): number | null {
    return SPEEDS[this.#state.settings.peek().speed];
  }

  /** Of the wall's clock: a number that was chosen, or what lets this part of the turn be followed. */
  #speed(): number {
    const turn = this.#events.turnAt(this.#atMs);
    if (this.#chosen !== null) return this.#chosen;
    if (turn) return this.#events.speedAt(turn, this.#atMs);
    return this.#recording && this.#events.isMeasuring(this.#atMs) ? MEASURED_SPEED : 1;
  }

  #goTo(atMs: number): void {
    if (atMs < this.#atMs) {
      this.#next = this.#places.backTo(atMs);
      if (this.#recording) this.#takeSettings();
    }
    this.#atMs = Number.isFinite(atMs) ? atMs : this.#events.endMs;
    this.#applyDue();
  }

  #applyDue(): void {
    for (;;) {
      const event = this.#events.at(this.#next);
      if (!event || this.#events.shownMs(event) > this.#atMs) return;
      if (event.kind === 'turn_started') this.#places.keep(this.#next, event.atMs);
      this.#next++;
      this.#apply(event);
    }
  }

  /** A recording's, as they were then: the kept state has none. */
  #takeSettings(): void {
    for (let place = 0; place < this.#next; place++) {
      const event = this.#events.at(place)!;
      if (event.kind === 'settings') applyEvent(this.#state, withoutLesson(event));
    }
  }

  /** Live, settings are in force as soon as they are heard, whatever is shown: they are kept for a recording. */
  #apply(event: SessionEvent): void {
    if (this.#recording || event.kind !== 'settings') applyEvent(this.#state, event);
  }

  #range(): { startMs: number; endMs: number } {
    return this.#recording ? this.#events : this.#events.lastTurn;
  }

  #show(): void {
    const { startMs, endMs } = this.#range();
    const time: TimeView = {
      atMs: Math.min(Math.max(0, (this.#follows ? endMs : this.#atMs) - startMs), endMs - startMs),
      lengthMs: endMs - startMs,
      follows: this.#follows,
      playing: this.#playing && !this.#follows,
      speed: this.#follows ? 1 : this.#speed(),
    };
    this.#state.time.value = time;
    if (this.#recording) {
      this.#state.replay.value = { title: this.#recording.title, why: this.#why };
      this.#state.status.value = {
        phase: 'recorded',
        message: `Recorded: ${this.#recording.title}`,
        progress: null,
      };
      this.#state.playing.value = this.#playing;
    }
  }
}
