/**
 * Checks a holder's reply to a handshake. Written by hand, because the schema library would be a third of the code that an
 * engine's thread loads, only for this.
 */
import type { WelcomeMessage } from './messages.ts';

type Check = readonly [wanted: string, holds: (value: unknown) => boolean];

const text: Check = ['a string', (value) => typeof value === 'string'];
const number: Check = ['a number', (value) => Number.isFinite(value)];
const count: Check = ['a whole number above 0', (value) => Number.isSafeInteger(value) && Number(value) > 0];
const counts: Check = [
  'a list of whole numbers above 0',
  // Array.from, because every() skips holes.
  (value) => Array.isArray(value) && Array.from(value).every((each) => count[1](each)),
];
const sharedMemory: Check = [
  'shared memory',
  (value) => typeof SharedArrayBuffer !== 'undefined' && value instanceof SharedArrayBuffer,
];
const object: Check = ['an object', (value) => typeof value === 'object' && value !== null];

const WELCOME = {
  identity: object,
  slab: sharedMemory,
  slots: count,
  slotBytes: count,
  now: number,
} as const;
const IDENTITY = {
  engineId: text,
  host: text,
  port: number,
  compatibilityHash: text,
  blockSize: count,
  blockBytes: counts,
} as const;

/** What is wrong with the reply, for messages; null if nothing is. */
export function welcomeProblem(welcome: WelcomeMessage): string | null {
  const wrong = firstWrong(welcome, WELCOME, '') ?? firstWrong(welcome.identity, IDENTITY, 'identity.');
  if (wrong !== null) return wrong;
  const { slab, slots, slotBytes } = welcome;
  if (slab.byteLength >= slots * slotBytes) return null;
  return `its slab has ${slab.byteLength} bytes, not ${slots} x ${slotBytes}`;
}

function firstWrong(fields: object, checks: Readonly<Record<string, Check>>, path: string): string | null {
  for (const [key, [wanted, holds]] of Object.entries(checks)) {
    if (!holds(Reflect.get(fields, key))) return `${path}${key}: wanted ${wanted}`;
  }
  return null;
}
