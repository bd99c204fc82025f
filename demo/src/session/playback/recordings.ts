/** Reads and checks recordings. */
import type { z } from 'zod';
import { wantedBy, wholeNumber } from '../../../../src/config/fields.ts';
import { type Recording, recordingSchema } from '../../../../src/recording/events.ts';
import { settingsSchema } from '../settings.ts';

/** Limits of what the page can draw: all blocks of an engine, and the used ones of a store. */
const MOST_BLOCKS = { blocks: 32_768, store_blocks: 262_144 } as const;

/** Recorded pools may be larger than those that the page builds. */
const pool = wholeNumber('a number of blocks', { min: 2 });
const recordedSettings: Readonly<Record<string, z.ZodType>> = {
  ...settingsSchema.shape,
  ...{ pBlocks: pool, dBlocks: pool },
};

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
    const issue = parsed.error.issues[0]!;
    // The version's message says itself what it is about.
    const place = issue.path.filter((key) => key !== 'kvferryRecording').join('.');
    throw new Error(
      `${name} is not a recording of this version of kvferry: ${wantedBy(issue)}${place && ` at ${place}`}.`,
    );
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
  const events = parsed.data.events.map((event) =>
    event.kind === 'settings' ? { ...event, settings: knownSettings(event.settings) } : event,
  );
  return { ...parsed.data, events };
}

/** The lesson in which a recording was saved; null: none. */
export const lessonOf = ({ events }: Recording): unknown =>
  events.findLast((event) => event.kind === 'settings')?.settings.lesson ?? null;

/** Without the settings that this page does not have, or whose values it does not know. */
function knownSettings(settings: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const known: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(settings)) {
    const schema = Object.hasOwn(recordedSettings, key) ? recordedSettings[key] : undefined;
    const parsed = schema?.safeParse(value);
    if (parsed?.success) known[key] = parsed.data;
  }
  return known;
}
