/** A server's keys for blocks. No part of a key comes from outside. */
import { type BlockName, FORMAT_VERSION, isName } from './block-file.ts';

/** Prefix of all keys of this format. */
export const BLOCK_KEYS = `kvferry:${FORMAT_VERSION}:`;

/** null if the block's key cannot be part of a server's; the block is then kept in memory only. */
export const keyOf = (name: BlockName): string | null =>
  isName(name) ? `${BLOCK_KEYS}${name.namespace}:${name.key}` : null;

/** The block that a key names; null for other keys. */
export function blockAt(serverKey: string): BlockName | null {
  if (!serverKey.startsWith(BLOCK_KEYS)) return null;
  const [namespace = '', key = '', ...rest] = serverKey.slice(BLOCK_KEYS.length).split(':');
  const name = { namespace, key };
  return rest.length === 0 && isName(name) ? name : null;
}
