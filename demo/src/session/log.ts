/** The events of this session, for saving as a recording. */
import {
  RECORDING_VERSION,
  type Recording,
  recordingSchema,
  type SessionEvent,
} from '../../../src/recording/events.ts';

/** An hour of chatting; then recording ends, and what there is stays. */
const MOST_EVENTS = 200_000;

export class EventLog {
  #events: SessionEvent[] = [];

  add(event: SessionEvent): void {
    if (this.#events.length < MOST_EVENTS) this.#events.push(event);
  }

  /** Begins anew: what was drawn before is gone with the engines that it came from. */
  clear(): void {
    this.#events = [];
  }

  recording(title: string): Recording {
    // Progress of building engines tells a viewer nothing.
    const events = this.#events.filter((event) => event.kind !== 'status' || event.phase !== 'starting');
    return recordingSchema.parse({
      kvferryRecording: RECORDING_VERSION,
      madeWith: 'the page',
      title,
      events,
    });
  }
}

/** Has the browser save a text as a file. */
export function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
