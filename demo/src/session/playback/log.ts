/** Saves events as a recording file. */
import {
  RECORDING_VERSION,
  type Recording,
  recordingSchema,
  type SessionEvent,
} from '../../../../src/recording/events.ts';

export function recordingOf(events: readonly SessionEvent[], title: string): Recording {
  return recordingSchema.parse({
    kvferryRecording: RECORDING_VERSION,
    madeWith: 'the page',
    title,
    // A viewer does not need the progress of engine starts.
    events: events.filter((event) => event.kind !== 'status' || event.phase !== 'starting'),
  });
}

/** Makes the browser save a text as a file. */
export function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
