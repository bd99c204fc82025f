/** Recordings from files, checked. */
import { z } from 'zod';
import { type Recording, recordingSchema } from '../../../src/recording/events.ts';

/** Each block of an engine is drawn, of a store what it has: of many more the page stands still, or ends. */
const MOST_BLOCKS = { blocks: 16_384, store_blocks: 262_144 } as const;

/** Throws one sentence for anything that is no recording. */
export function parseRecording(text: string, name: string): Recording {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error(`${name} is not JSON: wanted a recording saved by this page or by kvferry run --record.`);
  }
  const parsed = recordingSchema.safeParse(value);
  if (!parsed.success) {
    const where = z.prettifyError(parsed.error).split('\n').slice(0, 2).join(' ');
    throw new Error(`${name} is no recording of this version of kvferry: ${where}`);
  }
  for (const event of parsed.data.events) {
    if (event.kind !== 'blocks' && event.kind !== 'store_blocks') continue;
    const most = MOST_BLOCKS[event.kind];
    const whose = event.kind === 'blocks' ? event.engineId : 'the store';
    if (event.numBlocks > most)
      throw new Error(
        `${name} is of ${event.numBlocks} blocks in ${whose}, and the page shows up to ${most}: record it with fewer.`,
      );
  }
  return parsed.data;
}
