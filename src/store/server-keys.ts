/** A server's keys for blocks. No part of a key comes from outside. */
import { type BlockName, FORMAT_VERSION, isName } from './block-file.ts';

/** Prefix of all keys of this format. */
export const BLOCK_KEYS = `kvferry:${FORMAT_VERSION}:`;

/** null if the hash cannot be part of a key; the block is then kept in memory only. */
export const keyOf = (name: BlockName): string | null =>
  isName(name) ? `${BLOCK_KEYS}${name.namespace}:${name.hash}` : null;

/** The block that a key names; null for other keys. */
export function blockAt(key: string): BlockName | null {
  if (!key.startsWith(BLOCK_KEYS)) return null;
  const [namespace = '', hash = '', ...rest] = key.slice(BLOCK_KEYS.length).split(':');
  const name = { namespace, hash };
  return rest.length === 0 && isName(name) ? name : null;
}
