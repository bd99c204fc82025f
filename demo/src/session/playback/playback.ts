/**
 * The clock of everything shown: events become state when this clock reaches them. Live, it is the session's clock. It
 * runs behind while a turn is shown slowly, stands still while the user seeks, and is the only clock of a recording.
 */
import type { Recording } from '../../../../src/recording/events.ts';
import { Frames } from '../frames.ts';
import { READING_MS } from '../reading.ts';
import { SPEEDS } from '../settings.ts';
import { applyEvent, clearState, type WritableState } from '../state.ts';
import type { SessionEvent, TimeView } from '../types.ts';
import { KeptPlaces } from './kept-places.ts';
import { withoutOnlookers } from './onlooker.ts';
import { MOST_EVENTS, Timeline } from './played-events.ts';

/** Longer gaps between turns are skipped. */
const LONGEST_GAP_MS = 1200;
/** Races and sweeps in a recording are played at this speed: they take about a minute. */
const MEASURED_SPEED = 4;

export class Playback {
  readonly #state: WritableState;
  readonly #liveMs: () => number;
  readonly #places: KeptPlaces;
  readonly #frames = new Frames((elapsedMs) => this.#tick(elapsedMs));
  #events = new Timeline(MOST_EVENTS);
  /** Index of the next event; all before it are in the state. */
  #next = 0;
  #atMs = 0;
  /** Live: events are shown as they happen. */
  #follows = true;
  #playing = true;
  #recording: Recording | null = null;
  /** Why the recording is shown instead of engines; null: engines could run. */
  #why: string | null = null;
  /** Wall milliseconds for which the clock keeps standing still. */
  #restMs = 0;
  #waiting: (() => void)[] = [];

  constructor(state: WritableState, liveMs: () => number) {
    this.#state = state;
    this.#liveMs = liveMs;
    this.#places = new KeptPlaces(state);
  }

  /** The time that is shown. */
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
    // Engine starts and failures, settings, and notes during a recording are shown at once.
    const atOnce = event.kind === 'status' && (event.phase === 'starting' || event.phase === 'failed');
    if (this.#recording) {
      applyEvent(this.#state, event);
      this.#show();
      return;
    }
    if (event.kind === 'settings') applyEvent(this.#state, event);
    if (atOnce || this.#events.full) this.toNow();
    const inserted = this.#events.add(event);
    for (const { place } of inserted) this.#places.changedAt(place);
    if (this.#follows) {
      const isLast = inserted[0]?.place === this.#next;
      if (event.kind === 'turn_started' && isLast) this.#places.keep(this.#next, event.atMs);
      this.#next = this.#events.length;
      this.#apply(event);
      const slowly = event.kind === 'turn_started' && this.#events.isShownSlowly(event.turnId);
      if (slowly && this.#chosen !== 1 && !this.#events.full) this.#fallBehind(event.atMs);
    } else {
      // Late events of a time that was already shown are applied at once.
      for (const late of inserted) {
        if (late.place >= this.#next) continue;
        this.#next++;
        this.#apply(late.event);
      }
    }
    this.#show();
  }

  /** Shows a message to the user at once, even while a turn is shown later than it ran. */
  say(event: SessionEvent): void {
    if (this.#follows || this.#recording) this.hear(event);
    else applyEvent(this.#state, event);
  }

  /** All events since the engines were built, for a recording. `cut`: later events were not kept. */
  told(): { events: SessionEvent[]; cut: boolean } {
    return { events: this.#events.told(), cut: this.#events.full };
  }

  /** Forgets all events, because their engines are gone. */
  forget(): void {
    this.toNow();
    this.#empty();
  }

  #empty(events = new Timeline(MOST_EVENTS)): void {
    this.#events = events;
    this.#places.forget();
    this.#next = 0;
  }

  /** Shows only this recording from now on. `why`: why engines cannot run; null: they could. */
  load(recording: Recording, why: string | null = null): void {
    this.pause();
    this.#recording = recording;
    this.#why = why;
    // Without a limit: all of it is already in memory.
    this.#empty(new Timeline());
    for (const event of recording.events) this.#events.add(withoutOnlookers(event));
    this.#follows = false;
    this.#atMs = this.#events.startMs;
    clearState(this.#state);
    this.#applyDue();
    this.#show();
  }

  /** Returns to live; nothing of the recording stays. */
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

  /** Stops the clock. Live events are kept for later. */
  pause(): void {
    if (this.#follows && !this.#recording) this.#fallBehind(this.#liveMs());
    this.#playing = false;
    this.#restMs = 0;
    this.#frames.stop();
    this.#show();
  }

  /** Goes to the present, or to the end of a recording. */
  toNow(): void {
    if (this.#follows) return;
    this.#goTo(Number.POSITIVE_INFINITY);
    this.#catchUp();
    // The rest of a turn that is under way is shown as it comes.
    if (!this.#recording) this.play();
    this.#show();
  }

  /** Resolves when everything that happened is shown. */
  async caughtUp(): Promise<void> {
    if (!this.#follows && !this.#recording) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  /** Goes to a time and stops the clock. `atMs` counts from the start of the last turn or of the recording. */
  seek(atMs: number): void {
    const { startMs, endMs } = this.#range();
    this.pause();
    this.#goTo(Math.min(startMs + Math.max(0, atMs), endMs));
    this.#show();
  }

  /** Goes to the next stage of the shown turn, or of the next one, and stops the clock. */
  step(): void {
    if (this.#follows) {
      // Shows the last turn again, from its start.
      this.seek(0);
      return;
    }
    this.pause();
    this.#goTo(this.#events.beatAfter(this.#atMs) ?? Number.POSITIVE_INFINITY);
    if (!this.#recording && this.#next >= this.#events.length) this.#catchUp();
    this.#show();
  }

  /** Goes to the end of the shown turn, or of the next one. */
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
    // When the log is full, events are no longer kept and must be shown live.
    if (this.#recording || (this.#events.turnUnderWay && !this.#events.full)) return;
    this.#follows = true;
    this.#playing = true;
    this.#frames.stop();
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** Returns true while the clock runs. */
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

  /** Advances, but rests before an event that would remove something from view that is to be read. */
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

  /** The clock's time after this much wall time. */
  #moved(elapsedMs: number): number {
    const speed = this.#speed();
    // Even a long frame does not skip the beginning of a turn that is shown slowly.
    const begins = this.#chosen === null ? this.#events.turnAfter(this.#atMs) : Number.POSITIVE_INFINITY;
    const moved = Math.min(this.#atMs + elapsedMs * speed, begins);
    const next = this.#events.at(this.#next);
    if (!this.#recording && !next) return Math.min(moved, this.#liveMs());
    const gap = next && !this.#events.turnAt(this.#atMs) ? next.atMs - this.#atMs : 0;
    return gap > LONGEST_GAP_MS
      ? next!.atMs - LONGEST_GAP_MS
      : Math.min(moved, this.#recording ? moved : this.#liveMs());
  }

  /** The chosen speed; null: slow enough to follow. */
  get #chosen(): number | null {
    return SPEEDS[this.#state.settings.peek().speed];
  }

  /** Speed relative to wall time: the chosen one, or one that lets this part of the turn be followed. */
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

  /** Restores a recording's settings at this time; kept states have none. */
  #takeSettings(): void {
    for (let place = 0; place < this.#next; place++) {
      const event = this.#events.at(place)!;
      if (event.kind === 'settings') applyEvent(this.#state, event);
    }
  }

  /** Applies an event. Live settings were already applied when they arrived; they are kept only for a recording. */
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
