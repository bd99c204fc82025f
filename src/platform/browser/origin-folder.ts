/**
 * A store's folder in the origin private file system (OPFS), which outlives the page. It runs in a worker, where files
 * can be written in place (FileSystemSyncAccessHandle). A file is written under a temporary name and then moved, so it
 * is never visible half written.
 */
import { messageOf } from '../../errors.ts';
import type { StoreFile, StoreFolder } from '../types.ts';

/** Suffix of files that are being written. */
const TEMPORARY = '.tmp';
/** Age after which a temporary file's writer is assumed dead. */
const ABANDONED_MS = 60_000;

/** File handles in a worker. The DOM's types lack both methods. */
interface WorkerFileHandle extends FileSystemFileHandle {
  createSyncAccessHandle(): Promise<{
    write(bytes: Uint8Array, options: { at: number }): number;
    flush(): void;
    close(): void;
  }>;
  move(folder: FileSystemDirectoryHandle, name: string): Promise<void>;
}

/** null if the browser provides no such file system; the reason goes to onTrouble. */
export async function originFolder(
  directory: string,
  onTrouble: (message: string) => void,
): Promise<StoreFolder | null> {
  const location = `${directory} (this browser's private files)`;
  const open = async () =>
    (await navigator.storage.getDirectory()).getDirectoryHandle(directory, { create: true });
  let root: FileSystemDirectoryHandle;
  try {
    root = await open();
  } catch (error) {
    onTrouble(
      `this browser keeps no files for this page (${messageOf(error)}): saved blocks stay in memory and are lost with the page`,
    );
    return null;
  }
  return {
    location,

    // Only this origin can have a folder of this name, so every file in it is a store's.
    async isEmpty() {
      for await (const [name] of filesIn(root, '')) if (!name.endsWith(TEMPORARY)) return false;
      return true;
    },

    async list() {
      const files: StoreFile[] = [];
      for await (const [name, handle, folder] of filesIn(root, '')) {
        // Another page may have removed the file.
        const file = await handle.getFile().catch(() => null);
        if (!file) continue;
        const { size: bytes, lastModified: modifiedMs } = file;
        if (!name.endsWith(TEMPORARY)) files.push({ name, bytes, modifiedMs });
        else if (Date.now() - modifiedMs > ABANDONED_MS)
          await folder.removeEntry(handle.name).catch(() => {});
      }
      return files;
    },

    async read(name) {
      try {
        const [folder, last] = await parentOf(root, name, false);
        const file = await (await folder.getFileHandle(last)).getFile();
        return new Uint8Array(await file.arrayBuffer());
      } catch (error) {
        if (isMissing(error)) return null;
        throw error;
      }
    },

    async write(name, bytes, onMissing) {
      try {
        await replace(root, name, bytes);
      } catch (error) {
        if (!isMissing(error)) throw error;
        // The user has cleared the site's data, or another page has removed the directory: this handle stays dead.
        root = await open();
        await onMissing?.();
        await replace(root, name, bytes);
      }
    },

    async remove(name) {
      try {
        const [folder, last] = await parentOf(root, name, false);
        await folder.removeEntry(last);
      } catch (error) {
        if (!isMissing(error)) throw error;
      }
    },
  };
}

async function replace(root: FileSystemDirectoryHandle, name: string, bytes: Uint8Array): Promise<void> {
  const [folder, last] = await parentOf(root, name, true);
  const temporary = `${last}.${crypto.randomUUID()}${TEMPORARY}`;
  const handle = (await folder.getFileHandle(temporary, { create: true })) as WorkerFileHandle;
  try {
    await writeAll(handle, bytes);
    await handle.move(folder, last);
  } catch (error) {
    await folder.removeEntry(temporary).catch(() => {});
    throw error;
  }
}

async function writeAll(handle: WorkerFileHandle, bytes: Uint8Array): Promise<void> {
  const access = await handle.createSyncAccessHandle();
  try {
    const written = access.write(bytes, { at: 0 });
    // Chromium does not throw where there is no room; its `written` is then a negative error code as a large number.
    if (written !== bytes.length)
      throw new Error('no room is left: the disk, or what the browser allows this site, is full');
    access.flush();
  } finally {
    access.close();
  }
}

const isMissing = (error: unknown): boolean =>
  error instanceof DOMException && (error.name === 'NotFoundError' || error.name === 'TypeMismatchError');

/** The file's folder, and its name in that folder. */
async function parentOf(
  root: FileSystemDirectoryHandle,
  name: string,
  create: boolean,
): Promise<[FileSystemDirectoryHandle, string]> {
  const parts = name.split('/');
  const last = parts.pop()!;
  let folder = root;
  for (const part of parts) folder = await folder.getDirectoryHandle(part, { create });
  return [folder, last];
}

/** Yields each file's name relative to the root, with '/' as separator, its handle, and its folder. */
async function* filesIn(
  folder: FileSystemDirectoryHandle,
  before: string,
): AsyncGenerator<[string, FileSystemFileHandle, FileSystemDirectoryHandle]> {
  for await (const entry of folder.values()) {
    const name = `${before}${entry.name}`;
    if (entry.kind === 'directory') yield* filesIn(entry as FileSystemDirectoryHandle, `${name}/`);
    else yield [name, entry as FileSystemFileHandle, folder];
  }
}
