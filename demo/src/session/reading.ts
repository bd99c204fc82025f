/** How long what is to be read stays: a turn's end before the next one is played, and notes. */
import type { Settings } from './settings.ts';

/** Where turns are shown slowly: a headline and the sentence below it, read by somebody who sees them for the first time. */
export const READING_MS = 3500;
const LIVE_READING_MS = 900;

/** What is said by the way, and goes by itself: the longer it is, the longer it stays. */
export const saidMs = (message: string): number => Math.max(12_000, 80 * message.length);

export const readingMs = ({ speed }: Pick<Settings, 'speed'>): number =>
  speed === 'slow' ? READING_MS : LIVE_READING_MS;
