/** How long a turn's end stays before the next one is played. */
import type { Settings } from './settings.ts';

/** Where turns are shown slowly: a headline and the sentence below it, read by somebody who sees them for the first time. */
export const READING_MS = 3500;
const LIVE_READING_MS = 900;

export const readingMs = ({ speed }: Pick<Settings, 'speed'>): number =>
  speed === 'slow' ? READING_MS : LIVE_READING_MS;
