/** A lesson's settings in plain words. */
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
      ? 'P pulls even if D has only a few tokens for it (threshold 0)'
      : `P pulls if D has at least ${plural(tokens, 'token')} for it (threshold)`,
  link: (link) => {
    if (link === null) return 'no modelled link';
    const { bytesPerSecond, latencyMs } = parseLink(link);
    return `a modelled link between P and D, with ${bytes(bytesPerSecond)}/s and ${ms(latencyMs)} of latency`;
  },
  tokenCheck: (on) => `pulled tokens are ${on ? '' : 'not '}compared with the prompt first (token check)`,
  prefill: (count) => `${count} P`,
  decode: (count) => `${count} D`,
  routing: (name) => `the routing policy ${name}`,
  pBlocks: (count) => `${count} blocks in P`,
  dBlocks: (count) => `${count} blocks in D`,
  maxTokens: (count) => `answers of at most ${count} tokens`,
  store: (size) => (size === null ? 'no store' : `a store of ${size / 2 ** 20} MiB next to P and D`),
  offloadPromptOnly: (only) => `the store saves ${only ? 'only prompts' : 'prompts and what D writes'}`,
  path: (path) => (path === 'store' ? 'all KV goes through the store' : `KV takes the path “${path}”`),
  conversations: (count) => `${plural(count, 'user')} at once`,
  drain: (drain) =>
    ({
      wait: 'a D that leaves waits until its holds have been read',
      migrate: 'a D that leaves moves its holds to another D',
      drop: 'a D that leaves drops its holds',
    })[drain],
};

export function describeSettings({ settings }: Pick<LessonHead, 'settings'>): string {
  const phrase = <K extends keyof Settings>(key: K, value: Settings[K]): string =>
    WORDS[key]?.(value) ?? `${key} ${value}`;
  return (Object.keys(settings) as (keyof Settings)[]).map((key) => phrase(key, settings[key]!)).join('; ');
}

/** Lower-cases the first letter, except of P and D. */
const lower = (text: string): string => text.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase());
