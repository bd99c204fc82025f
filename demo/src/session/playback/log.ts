/** Saves events as a recording file. */
import { recordingSchema, type SessionEvent } from '../../../../src/recording/events.ts';
import { recordingText } from '../../../../src/recording/recording-text.ts';

export function savedText(events: readonly SessionEvent[], title: string): string {
  // A viewer does not need the progress of engine starts.
  const shown = events.filter((event) => event.kind !== 'status' || event.phase !== 'starting');
  return recordingText(recordingSchema.shape.events.parse(shown), title, 'the page');
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
