/** Replays a recording's events through the page's own state, at any speed, forwards and (by starting anew) backwards. */
import { z } from 'zod';
import { type Recording, recordingSchema } from '../../../src/recording/events.ts';
import { applyEvent, clearState, type WritableState } from './state.ts';

/** 1 is as it happened. */
export const SPEEDS = [0.1, 0.25, 1, 4] as const;
/** A quick machine's recording begins slowed down, so that it lasts about so long. */
const LEAST_SHOWN_MS = 10_000;

/** A frame's longest share of the recording: after a pause of the browser nothing is skipped unseen. */
const LONGEST_FRAME_MS = 250;

/** Throws one sentence for anything that is no recording. */
export function parseRecording(text: string, name: string): Recording {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error(`${name} is not JSON: wanted a recording saved by this page or by kvferry run --record.`);
  }
  const parsed = recordingSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const where = z.prettifyError(parsed.error).split('\n').slice(0, 2).join(' ');
  throw new Error(`${name} is no recording of this version of kvferry: ${where}`);
}

export class Replay {
  readonly #state: WritableState;
  readonly #recording: Recording;
  readonly #startMs: number;
  readonly #lengthMs: number;
  #next = 0;
  #atMs = 0;
  #playing = false;
  #speed: number;
  #frame = 0;
  #lastFrameMs = 0;

  constructor(state: WritableState, recording: Recording) {
    this.#state = state;
    this.#recording = recording;
    const { events } = recording;
    this.#startMs = events[0]!.atMs;
    this.#lengthMs = events.reduce((last, { atMs }) => Math.max(last, atMs), this.#startMs) - this.#startMs;
    this.#speed = speedFor(this.#lengthMs);
    clearState(state);
    this.#show();
  }

  /** In the recording's own times. */
  nowMs(): number {
    return this.#startMs + this.#atMs;
  }

  play(): void {
    if (this.#playing) return;
    if (this.#next >= this.#recording.events.length) this.seek(0);
    this.#playing = true;
    this.#lastFrameMs = performance.now();
    this.#frame = requestAnimationFrame(() => this.#tick());
    this.#show();
  }

  pause(): void {
    this.#playing = false;
    cancelAnimationFrame(this.#frame);
    this.#show();
  }

  setSpeed(speed: number): void {
    if (speed > 0 && Number.isFinite(speed)) this.#speed = speed;
    this.#show();
  }

  /** Milliseconds from the recording's start. */
  seek(atMs: number): void {
    const target = Math.max(0, Math.min(this.#lengthMs, atMs));
    if (target < this.#atMs) {
      clearState(this.#state);
      this.#next = 0;
    }
    this.#atMs = target;
    this.#applyDue();
    this.#show();
  }

  /** To the end of the next turn. */
  step(): void {
    const { events } = this.#recording;
    const end = events.findIndex((event, i) => i >= this.#next && event.kind === 'turn_ended');
    this.seek(end < 0 ? this.#lengthMs : events[end]!.atMs - this.#startMs);
  }

  #tick(): void {
    if (!this.#playing) return;
    const now = performance.now();
    this.#atMs += Math.min(now - this.#lastFrameMs, LONGEST_FRAME_MS) * this.#speed;
    this.#lastFrameMs = now;
    if (this.#atMs >= this.#lengthMs) {
      this.#atMs = this.#lengthMs;
      this.#applyDue();
      this.pause();
      return;
    }
    this.#applyDue();
    this.#show();
    this.#frame = requestAnimationFrame(() => this.#tick());
  }

  /** Events lie in the file in the order in which they were told, which is nearly that of their times. */
  #applyDue(): void {
    const { events } = this.#recording;
    while (this.#next < events.length && events[this.#next]!.atMs - this.#startMs <= this.#atMs) {
      applyEvent(this.#state, events[this.#next++]!);
    }
  }

  #show(): void {
    const { title } = this.#recording;
    const lengthMs = this.#lengthMs;
    const [atMs, playing, speed] = [this.#atMs, this.#playing, this.#speed];
    this.#state.replay.value = { title, atMs, lengthMs, playing, speed };
    this.#state.status.value = { phase: 'recorded', message: `Recorded: ${title}`, progress: null };
    this.#state.playing.value = this.#playing;
  }
}

/** The fastest, up to what happened, that takes long enough to be followed; else the slowest. */
export const speedFor = (lengthMs: number): number =>
  SPEEDS.findLast((speed) => speed <= 1 && lengthMs / speed >= LEAST_SHOWN_MS) ?? SPEEDS[0];
