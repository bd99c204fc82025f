/** Lists, verifies and clears a store's folder, for the CLI. Needs no engine. */
import { ConfigError, messageOf } from '../errors.ts';
import type { StoreFile, StoreFolder } from '../platform/types.ts';
import { sumOf } from '../sum.ts';
import { decodeBlock, HEAD_BYTES } from './block-file.ts';
import { blockIn, openStoreFolder } from './folder-names.ts';

/** The blocks of one model on one adapter. Times are ms since the epoch. */
export interface FolderNamespace {
  namespace: string;
  blocks: number;
  bytes: number;
  oldestMs: number;
  newestMs: number;
}

/** Sorted by size, largest first. Rejects with ConfigError if this is not a store's folder, as do the functions below. */
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

/** Reads and checks every block. Removes nothing. Rejects with the signal's reason if aborted. */
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

/** Removes every block. The folder remains a store's. */
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
  return { blocks: files.length, bytes: sumOf(files, ({ bytes }) => bytes) };
}

async function blockFiles(folder: StoreFolder): Promise<StoreFile[]> {
  return (await openStoreFolder(folder, false)).filter((file) => blockIn(file));
}
