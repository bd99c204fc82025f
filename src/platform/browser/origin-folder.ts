/**
 * A store's folder in the origin's private file system (OPFS), which outlives the page: for a worker, where files can be
 * written in place (FileSystemSyncAccessHandle). Files come by a move, so that none is ever seen half written.
 */
import { messageOf } from '../../errors.ts';
import type { StoreFile, StoreFolder } from '../types.ts';

/** What is being written; a name of this kind is no file yet. */
const TEMPORARY = '.tmp';
/** A writer that has not moved its file by then died. */
const ABANDONED_MS = 60_000;

/** Of a file in a worker; the DOM's types leave both out. */
interface WorkerFileHandle extends FileSystemFileHandle {
  createSyncAccessHandle(): Promise<{
    write(bytes: Uint8Array, options: { at: number }): number;
    flush(): void;
    close(): void;
  }>;
  move(folder: FileSystemDirectoryHandle, name: string): Promise<void>;
}

/** null where the browser gives this page no such file system, which is told. */
export async function originFolder(
  directory: string,
  onTrouble: (message: string) => void,
): Promise<StoreFolder | null> {
  const location = `${directory} (this browser's private files)`;
  let root: FileSystemDirectoryHandle;
  try {
    root = await (await navigator.storage.getDirectory()).getDirectoryHandle(directory, { create: true });
  } catch (error) {
    onTrouble(
      `this browser keeps no files for this page (${messageOf(error)}): what is saved stays in memory, and ends with the page`,
    );
    return null;
  }
  return {
    location,

    // Nobody else has one of this name.
    async isEmpty() {
      for await (const [name] of filesIn(root, '')) if (!name.endsWith(TEMPORARY)) return false;
      return true;
    },

    async list() {
      const files: StoreFile[] = [];
      for await (const [name, handle, folder] of filesIn(root, '')) {
        // Another page may have removed it.
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

    async write(name, bytes) {
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

async function writeAll(handle: WorkerFileHandle, bytes: Uint8Array): Promise<void> {
  const access = await handle.createSyncAccessHandle();
  try {
    const written = access.write(bytes, { at: 0 });
    if (written !== bytes.length) throw new Error(`${written} of ${bytes.length} bytes were written`);
    access.flush();
  } finally {
    access.close();
  }
}

const isMissing = (error: unknown): boolean =>
  error instanceof DOMException && (error.name === 'NotFoundError' || error.name === 'TypeMismatchError');

/** The folder that a file is in, and its name there. */
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

/** Names with slashes between, each with its handle and the folder that it is in. */
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
