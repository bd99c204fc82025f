/** Recorded events as the text of a file. */
import { RECORDING_VERSION, type SessionEvent } from './events.ts';

export function recordingText(events: readonly SessionEvent[], title: string, madeWith: string): string {
  const recording = { kvferryRecording: RECORDING_VERSION, madeWith, title, events };
  // Rounded to microseconds: no clock here is finer, and the file is a third smaller.
  return JSON.stringify(recording, (_, value) =>
    typeof value === 'number' ? Math.round(value * 1000) / 1000 : value,
  );
}
