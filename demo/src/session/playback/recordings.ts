/** Reads and checks recordings. */
import { z } from 'zod';
import { type Recording, recordingSchema } from '../../../../src/recording/events.ts';

/** Limits of what the page can draw: all blocks of an engine, and the used ones of a store. */
const MOST_BLOCKS = { blocks: 16_384, store_blocks: 262_144 } as const;

const SAVED_BY = 'saved by this page or by kvferry run --record';

/** Throws Error with one sentence if the text is not a recording. */
export function parseRecording(text: string, name: string): Recording {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error(`${name} is not JSON: wanted a recording ${SAVED_BY}.`);
  }
  if (typeof value !== 'object' || value === null || !('kvferryRecording' in value))
    throw new Error(`${name} is not a recording: wanted one ${SAVED_BY}.`);
  const parsed = recordingSchema.safeParse(value);
  if (!parsed.success) {
    const where = z.prettifyError(parsed.error).split('\n').slice(0, 2).join(' ');
    throw new Error(`${name} is not a recording of this version of kvferry: ${where}`);
  }
  for (const event of parsed.data.events) {
    if (event.kind !== 'blocks' && event.kind !== 'store_blocks') continue;
    const most = MOST_BLOCKS[event.kind];
    const whose = event.kind === 'blocks' ? event.engineId : 'the store';
    if (event.numBlocks > most)
      throw new Error(
        `${name} has ${event.numBlocks} blocks in ${whose}, and the page shows at most ${most}: record it with fewer.`,
      );
  }
  return parsed.data;
}
