/**
 * The page's settings: some of the command line's, checked by the same schema, and some of its own. All of them are in the
 * URL's hash, so that a link reproduces a state.
 */
import { z } from 'zod';
import { flag, oneOf, text, wholeNumber } from '../../../src/config/fields.ts';
import { MODES } from '../../../src/config/modes.ts';
import { ROUTING_NAMES } from '../../../src/config/routing.ts';
import { runConfigSchema } from '../../../src/config/run-schema.ts';
import { parseLink } from '../../../src/transport/link.ts';

const { shape } = runConfigSchema;

/** Playback speed relative to wall time; null: slow enough to follow. */
export const SPEEDS = {
  slow: null,
  live: 1,
  /** For recordings and past turns. */
  '4/1': 4,
  '1/4': 1 / 4,
  '1/10': 1 / 10,
  '1/30': 1 / 30,
  '1/100': 1 / 100,
} as const;
export type Speed = keyof typeof SPEEDS;

/** Every block is drawn and polled; with many more the page becomes unresponsive. */
export const MOST_BLOCKS = 4096;
const pool = wholeNumber(`2 to ${MOST_BLOCKS} blocks (one is the null block)`, { min: 2, max: MOST_BLOCKS });

export const settingsSchema = z.strictObject({
  model: text("a preset or a model's URL").default('recall'),
  mode: oneOf(MODES).default('bidirectional'),
  seed: shape.seed,
  prefixCaching: shape.prefixCaching.unwrap().default(false),
  /** Engines of each role; each is a thread with its own device. */
  prefill: wholeNumber('1 to 3 engines', { min: 1, max: 3 }).default(1),
  decode: wholeNumber('1 to 3 engines', { min: 1, max: 3 }).default(1),
  pBlocks: pool.default(64),
  dBlocks: pool.default(64),
  blockSize: shape.blockSize,
  /** The policy that chooses among several engines; one policy, not a mix. */
  routing: oneOf(ROUTING_NAMES).default('round-robin'),
  threshold: shape.threshold.unwrap().default(32),
  pullPolicy: shape.pullPolicy,
  link: shape.link.refine(isLink, {
    error: 'nvlink, rdma-400g, pcie, 100gbe, 10gbe, 1gbe or <bytes/s>[,<latency>]',
  }),
  handover: shape.handover,
  store: shape.store,
  /** A name in the browser's private file system, not a path. */
  storeDir: shape.storeDir.refine(isFolder, { error: 'a name of letters, digits and dashes' }),
  storeDirSize: shape.storeDirSize,
  storeTtl: shape.storeTtl,
  storeWrite: shape.storeWrite,
  storePrefetch: shape.storePrefetch,
  storeEviction: shape.storeEviction,
  offloadPromptOnly: shape.offloadPromptOnly,
  /** The path that KV takes if there is a store; the names are those of `kvferry bench --paths`. */
  path: oneOf(['both', 'first-hit', 'store']).default('both'),
  drain: shape.drain,
  ttl: shape.ttl,
  tokenCheck: shape.tokenCheck,
  allFullKv: shape.allFullKv,
  weightDtype: shape.weightDtype,
  kvDtype: shape.kvDtype,
  temperature: shape.temperature,
  maxTokens: shape.maxTokens,
  /** Conversations played at once. With 2, P and D work at the same time and compete for one GPU. */
  conversations: wholeNumber('1 or 2', { min: 1, max: 2 }).default(1),
  /** Turns of the shipped conversation played when the page opens. */
  turns: wholeNumber('a number of turns from 0 to 12', { min: 0, max: 12 }).default(3),
  /** Playback speed of turns. */
  speed: oneOf(Object.keys(SPEEDS) as [Speed, ...Speed[]]).default('slow'),
  /** Projector mode: no text smaller than 18 pixels. */
  projector: flag().default(false),
  lesson: wholeNumber('a lesson from 1 to 12', { min: 1, max: 12 }).nullable().default(null),
});

export type Settings = Readonly<z.infer<typeof settingsSchema>>;
export type SettingKey = keyof Settings;

/** Labels of the settings that are typed on the page; messages about them use these too. */
export const LABELS = {
  threshold: 'Recompute threshold, tokens',
  prefill: 'Prefill engines',
  decode: 'Decode engines',
  pBlocks: "P's pool, blocks",
  dBlocks: "D's pool, blocks",
  ttl: "D's hold, seconds",
  temperature: 'Temperature',
  seed: 'Seed',
  maxTokens: 'Longest answer, tokens',
} as const satisfies Partial<Record<SettingKey, string>>;

/** Settings that need new engines. All others change while engines run; pools can shrink, and grow back. */
export const needsNewEngines = [
  ...(['model', 'blockSize', 'weightDtype', 'kvDtype'] as const),
  ...([
    'store',
    'storeEviction',
    'storeDir',
    'storeDirSize',
    'storeTtl',
    'storeWrite',
    'storePrefetch',
  ] as const),
] as const;

const ofThePage = ['lesson', 'turns', 'conversations', 'speed', 'projector'];

/** Settings that the command line does not have. */
export const pageOnly: readonly string[] = [...ofThePage, 'path'];

/** Settings whose change does not touch running engines: the page's own, those sent with each question, and `drain`. */
export const asked: readonly string[] = [...ofThePage, 'temperature', 'maxTokens', 'seed', 'drain'];

function isFolder(name: string | null): boolean {
  return name === null || /^[\w-]+$/.test(name);
}

function isLink(text: string | null): boolean {
  try {
    if (text !== null) parseLink(text);
    return true;
  } catch {
    return false;
  }
}

export const defaultSettings: Settings = Object.freeze(settingsSchema.parse({}));

/** The pools unless they are set. With sliding windows, each of the model's KV cache groups takes blocks for the same tokens. */
export function defaultPools(model: string): Pick<Settings, 'pBlocks' | 'dBlocks'> {
  const numBlocks = /hybrid|gemma-3/.test(model) ? 256 : defaultSettings.pBlocks;
  return { pBlocks: numBlocks, dBlocks: numBlocks };
}
