/** A model's directory on disk. */
import { open, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { ModelError } from '../../errors.ts';
import type { FileSource } from '../types.ts';

const missing = (error: unknown): boolean =>
  (error as NodeJS.ErrnoException).code === 'ENOENT' || (error as NodeJS.ErrnoException).code === 'ENOTDIR';

export function directorySource(folder: string): FileSource {
  const at = (name: string): string => path.join(folder, name);
  return {
    location: folder,
    async readText(name) {
      try {
        return await readFile(at(name), 'utf8');
      } catch (error) {
        if (missing(error)) return null;
        throw new ModelError(`${at(name)} cannot be read: ${(error as Error).message}`, { cause: error });
      }
    },
    async size(name) {
      try {
        return (await stat(at(name))).size;
      } catch (error) {
        if (missing(error)) return null;
        throw new ModelError(`${at(name)} cannot be read: ${(error as Error).message}`, { cause: error });
      }
    },
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
