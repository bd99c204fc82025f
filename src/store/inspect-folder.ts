/** A store's folder as people ask for it: what is in it, whether it is whole, and its end. Needs no engine. */
import { ConfigError, messageOf } from '../errors.ts';
import type { StoreFile, StoreFolder } from '../platform/types.ts';
import { decodeBlock, HEAD_BYTES } from './block-file.ts';
import { blockIn, openStoreFolder } from './folder-names.ts';

/** Blocks that one model on one adapter left. */
export interface FolderNamespace {
  namespace: string;
  blocks: number;
  bytes: number;
  oldestMs: number;
  newestMs: number;
}

/** Most bytes first. Throws ConfigError for what is no store's folder; so do the others. */
export async function listFolder(folder: StoreFolder): Promise<FolderNamespace[]> {
  const found = new Map<string, FolderNamespace>();
  for (const file of await blockFiles(folder)) {
    const { namespace } = blockIn(file)!;
    const { bytes, modifiedMs } = file;
    const known = found.get(namespace) ?? {
      ...{ namespace, blocks: 0, bytes: 0, oldestMs: modifiedMs, newestMs: modifiedMs },
    };
    found.set(namespace, {
      namespace,
      blocks: known.blocks + 1,
      bytes: known.bytes + bytes,
      oldestMs: Math.min(known.oldestMs, modifiedMs),
      newestMs: Math.max(known.newestMs, modifiedMs),
    });
  }
  return [...found.values()].toSorted((a, b) => b.bytes - a.bytes);
}

/** Reads every block; removes nothing. Rejects with the signal's reason. */
export async function verifyFolder(
  folder: StoreFolder,
  signal?: AbortSignal,
): Promise<{ blocks: number; broken: { file: string; why: string }[] }> {
  const files = await blockFiles(folder);
  const broken: { file: string; why: string }[] = [];
  for (const file of files) {
    signal?.throwIfAborted();
    const bytes = await folder.read(file.name).catch((error: Error) => ({ wrong: messageOf(error) }));
    if (!bytes) continue;
    if ('wrong' in bytes) {
      broken.push({ file: file.name, why: bytes.wrong });
      continue;
    }
    const kv = decodeBlock(bytes, blockIn(file)!, bytes.length - HEAD_BYTES);
    if ('wrong' in kv) broken.push({ file: file.name, why: kv.wrong });
  }
  return { blocks: files.length, broken };
}

/** Removes every block; the folder stays a store's. */
export async function clearFolder(
  folder: StoreFolder,
  signal?: AbortSignal,
): Promise<{ blocks: number; bytes: number }> {
  const files = await blockFiles(folder);
  for (const [i, { name }] of files.entries()) {
    signal?.throwIfAborted();
    await folder.remove(name).catch((error: Error) => {
      throw new ConfigError(
        `${folder.location} cannot be cleared, after ${i} of ${files.length} blocks: ${messageOf(error)}`,
      );
    });
  }
  return { blocks: files.length, bytes: files.reduce((sum, { bytes }) => sum + bytes, 0) };
}

async function blockFiles(folder: StoreFolder): Promise<StoreFile[]> {
  return (await openStoreFolder(folder, false)).filter((file) => blockIn(file));
}
