/**
 * What the page lets a user set: part of the settings of the command line, checked by the same schema, and a few of the
 * page's own. All of it goes into the URL's hash, so that a link reproduces a state.
 */
import { z } from 'zod';
import { flag, oneOf, text, wholeNumber } from '../../../src/config/fields.ts';
import { MODES } from '../../../src/config/modes.ts';
import { ROUTING_NAMES } from '../../../src/config/routing.ts';
import { runConfigSchema } from '../../../src/config/run-schema.ts';
import { parseLink } from '../../../src/transport/link.ts';

const { shape } = runConfigSchema;

/** Of the wall's clock; null: as slow as it takes to be followed. */
export const SPEEDS = {
  slow: null,
  live: 1,
  /** Of what ran before: a recording need not be waited for. */
  '4/1': 4,
  '1/4': 1 / 4,
  '1/10': 1 / 10,
  '1/30': 1 / 30,
  '1/100': 1 / 100,
} as const;
export type Speed = keyof typeof SPEEDS;

/** Each block is drawn and looked at: of many more a page stands still. */
export const MOST_BLOCKS = 4096;
const pool = wholeNumber(`2 to ${MOST_BLOCKS} blocks (one is the null block)`, { min: 2, max: MOST_BLOCKS });

export const settingsSchema = z.strictObject({
  model: text("a preset or a model's URL").default('recall'),
  mode: oneOf(MODES).default('bidirectional'),
  seed: shape.seed,
  prefixCaching: shape.prefixCaching.unwrap().default(false),
  /** Engines of each kind: each a thread with a device of its own. */
  prefill: wholeNumber('1 to 3 engines', { min: 1, max: 3 }).default(1),
  decode: wholeNumber('1 to 3 engines', { min: 1, max: 3 }).default(1),
  pBlocks: pool.default(64),
  dBlocks: pool.default(64),
  blockSize: shape.blockSize,
  /** Who chooses among several; one policy, no mix. */
  routing: oneOf(ROUTING_NAMES).default('round-robin'),
  threshold: shape.threshold.unwrap().default(32),
  pullPolicy: shape.pullPolicy,
  link: shape.link.refine(isLink, {
    error: 'nvlink, rdma-400g, pcie, 100gbe, 10gbe, 1gbe or <bytes/s>[,<latency>]',
  }),
  handover: shape.handover,
  store: shape.store,
  /** In this browser's own files, not on a path. */
  storeDir: shape.storeDir.refine(isFolder, { error: 'a name of letters, digits and dashes' }),
  storeDirSize: shape.storeDirSize,
  storeTtl: shape.storeTtl,
  storeWrite: shape.storeWrite,
  storePrefetch: shape.storePrefetch,
  storeEviction: shape.storeEviction,
  offloadPromptOnly: shape.offloadPromptOnly,
  /** The ways that KV takes where there is a store, by the names of `kvferry bench --paths`. */
  path: oneOf(['both', 'first-hit', 'store']).default('both'),
  drain: shape.drain,
  ttl: shape.ttl,
  tokenCheck: shape.tokenCheck,
  allFullKv: shape.allFullKv,
  weightDtype: shape.weightDtype,
  kvDtype: shape.kvDtype,
  temperature: shape.temperature,
  maxTokens: shape.maxTokens,
  /** Conversations that are played at once: with 2, P and D work at the same time and compete for one GPU. */
  conversations: wholeNumber('1 or 2', { min: 1, max: 2 }).default(1),
  /** Turns of the shipped conversation that are played when the page opens. */
  turns: wholeNumber('a number of turns from 0 to 12', { min: 0, max: 12 }).default(3),
  /** How fast a turn is shown. */
  speed: oneOf(Object.keys(SPEEDS) as [Speed, ...Speed[]]).default('slow'),
  /** For a room: no text smaller than 18 pixels. */
  projector: flag().default(false),
  lesson: wholeNumber('a lesson from 1 to 12', { min: 1, max: 12 }).nullable().default(null),
});

export type Settings = Readonly<z.infer<typeof settingsSchema>>;
export type SettingKey = keyof Settings;

/** What only new engines can have; the rest changes while they run. Pools can shrink, and grow back. */
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

/** What is no setting of the command line's. */
export const pageOnly: readonly string[] = [...ofThePage, 'path'];

/** What concerns the page, what goes with each question, and how an engine leaves: engines go on as they are. */
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
