/** What a lesson sets when it begins, for its reader. */
import { parseLink } from '../../../src/transport/link.ts';
import type { Settings } from '../session/settings.ts';
import { bytes, ms, plural } from '../views/format.ts';
import { MODES } from '../views/modes.ts';
import type { LessonHead } from './types.ts';

type Words = { [K in keyof Settings]?: (value: Settings[K]) => string };

const WORDS: Words = {
  model: (model) => `the model ${model}`,
  mode: (mode) => `the mode “${MODES[mode].name}”: ${lower(MODES[mode].about)}`,
  prefixCaching: (on) =>
    on ? 'P keeps the blocks of earlier turns (prefix caching)' : 'P keeps nothing between turns',
  threshold: (tokens) =>
    tokens === 0
      ? 'P pulls however few tokens D has for it (threshold 0)'
      : `P pulls from ${plural(tokens, 'token')} on (threshold)`,
  link: (link) => {
    if (link === null) return 'no modelled link';
    const { bytesPerSecond, latencyMs } = parseLink(link);
    return `a modelled link between P and D, of ${bytes(bytesPerSecond)} a second and ${ms(latencyMs)} of delay`;
  },
  tokenCheck: (on) => `what P pulls is ${on ? '' : 'not '}compared with the prompt first (token check)`,
  prefill: (count) => `${count} P`,
  decode: (count) => `${count} D`,
  routing: (name) => `who serves a turn is chosen by ${name}`,
  pBlocks: (count) => `${count} blocks in P`,
  dBlocks: (count) => `${count} blocks in D`,
  maxTokens: (count) => `answers of ${count} tokens at most`,
  store: (size) => (size === null ? 'no store' : `a store of ${bytes(size)} beside P and D`),
  offloadPromptOnly: (only) => `the store gets ${only ? 'prompts alone' : 'what D writes too'}`,
  path: (path) =>
    path === 'store' ? 'all KV goes through the store' : `KV goes by the way “${path}” through the store`,
  conversations: (count) => `${plural(count, 'user')} at once`,
  drain: (drain) =>
    ({
      wait: 'a D that leaves waits until what it holds was read',
      migrate: 'a D that leaves moves what it holds to another',
      drop: 'a D that leaves drops what it holds',
    })[drain],
};

export function settingsInWords({ settings }: Pick<LessonHead, 'settings'>): string {
  const phrase = <K extends keyof Settings>(key: K, value: Settings[K]): string =>
    WORDS[key]?.(value) ?? `${key} ${value}`;
  return (Object.keys(settings) as (keyof Settings)[]).map((key) => phrase(key, settings[key]!)).join('; ');
}

/** Within a sentence; P and D stay what they are. */
const lower = (text: string): string => text.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase());
