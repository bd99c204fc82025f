/** A model's directory on disk. */
import { open, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { ModelError } from '../../errors.ts';
import type { FileSource } from '../types.ts';

/** null if the file does not exist. Throws ModelError for other failures. */
async function ifThere<T>(file: string, read: (file: string) => Promise<T>): Promise<T | null> {
  try {
    return await read(file);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    throw new ModelError(`${file} cannot be read: ${message}`, { cause: error });
  }
}

export function directorySource(folder: string): FileSource {
  const at = (name: string): string => path.join(folder, name);
  return {
    location: folder,
    readText: (name) => ifThere(at(name), (file) => readFile(file, 'utf8')),
    size: (name) => ifThere(at(name), async (file) => (await stat(file)).size),
    async readBytes(name, offset, length) {
      const bytes = new Uint8Array(length);
      try {
        const file = await open(at(name), 'r');
        try {
          let done = 0;
          while (done < length) {
            const { bytesRead } = await file.read(bytes, done, length - done, offset + done);
            if (bytesRead === 0)
              throw new Error(`it ends at byte ${offset + done}, wanted ${offset + length}`);
            done += bytesRead;
          }
        } finally {
          await file.close();
        }
      } catch (error) {
        throw new ModelError(`${at(name)} cannot be read: ${(error as Error).message}`, { cause: error });
      }
      return bytes;
    },
  };
}
