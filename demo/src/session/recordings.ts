/** Recordings from files, checked. */
import { z } from 'zod';
import { type Recording, recordingSchema } from '../../../src/recording/events.ts';

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
