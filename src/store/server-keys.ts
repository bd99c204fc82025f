/** Under which keys blocks are on a server. No part of a key comes from outside. */
import { type BlockName, FORMAT_VERSION, isName } from './block-file.ts';

/** What all keys of this format begin with. */
export const BLOCK_KEYS = `kvferry:${FORMAT_VERSION}:`;

/** null for a hash that is no name: it is then kept in memory only. */
export const keyOf = (name: BlockName): string | null =>
  isName(name) ? `${BLOCK_KEYS}${name.namespace}:${name.hash}` : null;

/** null for other keys. */
export function blockAt(key: string): BlockName | null {
  if (!key.startsWith(BLOCK_KEYS)) return null;
  const [namespace = '', hash = '', ...rest] = key.slice(BLOCK_KEYS.length).split(':');
  const name = { namespace, hash };
  return rest.length === 0 && isName(name) ? name : null;
}
