/**
 * Keeps a conversation on one engine, chosen by rendezvous hashing: FNV-64a over the conversation's id, a zero byte
 * and the engine's id; the highest hash wins. An engine that joins or leaves moves only its own share. Load is not
 * considered.
 *
 * AIBrix's `session-affinity` by `x-aibrix-session-key`, with keys of at most 256 characters; longer keys are ignored
 * and the engine is drawn at random. AIBrix hashes addresses. Here it is the engine's id, which a replacement does
 * not keep, just as it does not keep the KV.
 */
import { z } from 'zod';
import { definePolicy } from './definition.ts';
import { eachRole, oneOf } from './each-role.ts';

const LONGEST_KEY = 256;

export const sessionAffinity = definePolicy({
  help: "the engine chosen by a hash of the conversation's id",
  source: "AIBrix's session-affinity (rendezvous hash)",
  needs: [],
  parameters: z.strictObject({}),
  create: (_, { draws }) =>
    eachRole((engines, { conversationId }, draw) => {
      if (conversationId.length > LONGEST_KEY)
        return {
          engine: oneOf(engines, draw),
          why: `drawn: the key has more than ${LONGEST_KEY} characters`,
        };
      const key = fnv64a(`${conversationId}\0`);
      const hashes = engines.map(({ engineId }) => fnv64a(engineId, key));
      let best = 0;
      for (let i = 1; i < hashes.length; i++) if (above(hashes[i]!, hashes[best]!)) best = i;
      const scores = hashes.map(({ high, low }) => high * 2 ** 32 + low);
      return { engine: engines[best]!, why: 'the highest hash', scores, best: 'most' };
    }, draws),
});

/** 64 bits as two unsigned halves. */
interface Hash64 {
  high: number;
  low: number;
}

const OFFSET_BASIS: Hash64 = { high: 0xcbf29ce4, low: 0x84222325 };

const above = (a: Hash64, b: Hash64): boolean => a.high > b.high || (a.high === b.high && a.low > b.low);

const utf8 = new TextEncoder();

/** FNV-1a, 64 bits, of the text's UTF-8 bytes; continues from `from`. */
export function fnv64a(text: string, from: Hash64 = OFFSET_BASIS): Hash64 {
  // ASCII text is hashed directly, since encoding it would take longer than hashing it.
  const bytes = /^[\0-\x7f]*$/.test(text) ? null : utf8.encode(text);
  let { high, low } = from;
  for (let i = 0; i < (bytes ?? text).length; i++) {
    low = (low ^ (bytes ? bytes[i]! : text.charCodeAt(i))) >>> 0;
    // Multiply by the FNV prime 2^40 + 0x1b3.
    const product = low * 0x1b3;
    high = (Math.imul(high, 0x1b3) + Math.floor(product / 2 ** 32) + (low << 8)) >>> 0;
    low = product >>> 0;
  }
  return { high, low };
}
