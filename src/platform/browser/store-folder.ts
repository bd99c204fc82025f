/** A store's folder in the origin's private file system: a file is replaced whole when its writer closes. */
import type { StoreFile, StoreFolder } from '../types.ts';

/** Below the origin's root; made where it is missing. */
export async function privateFolder(directory: string): Promise<StoreFolder> {
  const top = await navigator.storage.getDirectory();
  const root = await top.getDirectoryHandle(directory, { create: true });
  const open = async (name: string, create: boolean): Promise<FileSystemFileHandle | null> => {
    try {
      const parts = name.split('/');
      let folder = root;
      for (const part of parts.slice(0, -1)) folder = await folder.getDirectoryHandle(part, { create });
      return await folder.getFileHandle(parts.at(-1)!, { create });
    } catch (error) {
      if ((error as DOMException).name === 'NotFoundError') return null;
      throw error;
    }
  };
  const walk = async (folder: FileSystemDirectoryHandle, path: string, files: StoreFile[]): Promise<void> => {
    for await (const entry of (folder as unknown as { values(): AsyncIterable<FileSystemHandle> }).values()) {
      if (entry.kind === 'directory')
        await walk(entry as FileSystemDirectoryHandle, `${path}${entry.name}/`, files);
      else {
        const { size, lastModified } = await (entry as FileSystemFileHandle).getFile();
        files.push({ name: `${path}${entry.name}`, bytes: size, modifiedMs: lastModified });
      }
    }
  };
  return {
    location: directory,

    async list() {
      const files: StoreFile[] = [];
      await walk(root, '', files);
      // A writer that never closed leaves an empty file.
      return files.filter(({ bytes }) => bytes > 0);
    },

    async read(name) {
      const handle = await open(name, false);
      return handle && new Uint8Array(await (await handle.getFile()).arrayBuffer());
    },

    async write(name, bytes) {
      const writable = await (await open(name, true))!.createWritable();
      try {
        await writable.write(bytes as Uint8Array<ArrayBuffer>);
        await writable.close();
      } catch (error) {
        await writable.abort().catch(() => {});
        throw error;
      }
    },

    async remove(name) {
      const parts = name.split('/');
      try {
        let folder = root;
        for (const part of parts.slice(0, -1)) folder = await folder.getDirectoryHandle(part);
        await folder.removeEntry(parts.at(-1)!);
      } catch (error) {
        if ((error as DOMException).name !== 'NotFoundError') throw error;
      }
    },
  };
}
