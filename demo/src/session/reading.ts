/** Reading times: the pause after a played turn, and how long notes stay. */
import type { Settings } from './settings.ts';

/** At slow speed: enough for a newcomer to read a headline and the sentence below it. */
export const READING_MS = 3500;
const LIVE_READING_MS = 900;

/** How long a note stays; longer messages stay longer. */
export const noteMs = (message: string): number => Math.max(12_000, 80 * message.length);

export const readingMs = ({ speed }: Pick<Settings, 'speed'>): number =>
  speed === 'slow' ? READING_MS : LIVE_READING_MS;
