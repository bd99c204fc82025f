/** File names in a store's folder, and the check that a folder is a store's. No part of a file name comes from outside. */
import { ConfigError } from '../errors.ts';
import type { StoreFile, StoreFolder } from '../platform/types.ts';
import { type BlockName, FORMAT_VERSION, isName } from './block-file.ts';

/** The file that marks a folder as a store's, and gives its format. */
export const MARKER = 'kvferry-store.json';

const BLOCK = /^blocks\/([0-9a-f]{64})\/[0-9a-f]{2}\/([0-9a-f]{64}(?:\.[1-9]\d{0,3})?)\.kv$/;

/** null if the key cannot be part of a file name; the block is then kept in memory only. */
export const fileOf = (name: BlockName): string | null => {
  const { namespace, key } = name;
  return isName(name) ? `blocks/${namespace}/${key.slice(0, 2)}/${key}.kv` : null;
};

/** The block that a file contains, by its name; null for other files. */
export function blockIn({ name }: Pick<StoreFile, 'name'>): BlockName | null {
  const found = BLOCK.exec(name);
  return found ? { namespace: found[1]!, key: found[2]! } : null;
}

/**
 * Lists the files of a store's folder. If `make` is set, an empty or missing folder becomes a store's. Any other folder throws
 * ConfigError; nothing in it is read or removed.
 */
export async function openStoreFolder(folder: StoreFolder, make: boolean): Promise<StoreFile[]> {
  const { location } = folder;
  const unreadable = (error: Error): never => {
    throw new ConfigError(`the store's folder ${location} cannot be read: ${error.message}`);
  };
  const marker = await folder.read(MARKER).catch(unreadable);
  if (marker) {
    const format = formatIn(marker);
    if (format === FORMAT_VERSION) return folder.list().catch(unreadable);
    throw new ConfigError(
      `${location} is a store of format ${format ?? 'unknown'}, but this kvferry reads format ${FORMAT_VERSION}: give another folder, or empty this one`,
    );
  }
  const isEmpty = await folder.isEmpty().catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') return unreadable(error);
    if (make) return true;
    throw new ConfigError(`there is no folder ${location}: give one that a store created`);
  });
  if (!isEmpty || !make) {
    const wanted = make ? 'an empty folder, or one that a store created' : 'one that a store created';
    throw new ConfigError(`${location} is not a kvferry store (it has no ${MARKER}): give ${wanted}`);
  }
  await mark(folder).catch((error: Error) => {
    throw new ConfigError(`the store cannot write to ${location}: ${error.message}; give another folder`);
  });
  return [];
}

/** Makes the folder a store's again if it was removed or emptied. Throws ConfigError if it now holds other files. */
export async function remakeStoreFolder(folder: StoreFolder): Promise<void> {
  if (await folder.read(MARKER)) return;
  const files = await folder.list().catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  // Other writers may have marked it meanwhile, or written blocks while it was being removed.
  if (!files.every((file) => file.name === MARKER || blockIn(file)))
    throw new ConfigError(`it has no ${MARKER} any more, but other files`);
  await mark(folder);
}

const mark = (folder: StoreFolder): Promise<void> =>
  folder.write(MARKER, new TextEncoder().encode(JSON.stringify({ format: FORMAT_VERSION })));

function formatIn(marker: Uint8Array): unknown {
  try {
    return (JSON.parse(new TextDecoder().decode(marker)) as { format?: unknown }).format;
  } catch {
    return null;
  }
}
