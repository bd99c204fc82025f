/**
 * A store's folder on disk. A file is written under a temporary name and then renamed, so it is never visible half
 * written.
 */
import { randomBytes } from 'node:crypto';
import { readdir, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { StoreFile, StoreFolder } from '../types.ts';
import { FileReads, readWhole } from './file-reads.ts';
import { makeDirectory } from './make-directory.ts';
import { replaceFile } from './replace-file.ts';

/** Suffix of files that are being written: the writer's process id and a random part. */
const TEMPORARY = /\.\d+-[0-9a-f]{12}\.tmp$/;
/** Age after which a temporary file's writer is assumed dead. */
const ABANDONED_MS = 60_000;

export function directoryFolder(directory: string): StoreFolder {
  const root = path.resolve(directory);
  const reads = new FileReads();
  const at = (name: string): string => path.join(root, ...name.split('/'));
  return {
    location: directory,

    async isEmpty() {
      return (await readdir(root)).every((name) => TEMPORARY.test(name));
    },

    async list() {
      const files: StoreFile[] = [];
      for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile()) continue;
        const file = path.join(entry.parentPath, entry.name);
        // Another process may have removed the file.
        const found = await stat(file).catch(() => null);
        if (!found) continue;
        if (TEMPORARY.test(entry.name)) {
          if (Date.now() - found.mtimeMs > ABANDONED_MS) await rm(file, { force: true }).catch(() => {});
          continue;
        }
        const name = path.relative(root, file).split(path.sep).join('/');
        files.push({ name, bytes: found.size, modifiedMs: found.mtimeMs });
      }
      return files;
    },

    read: (name) => readWhole(at(name)),

    readFor: (name, most, use) => reads.read(at(name), most, use),

    async write(name, bytes, onMissing) {
      const file = at(name);
      const temporary = `${file}.${process.pid}-${randomBytes(6).toString('hex')}.tmp`;
      const write = () => writeFile(temporary, bytes);
      try {
        await write().catch(async (error: NodeJS.ErrnoException) => {
          if (error.code !== 'ENOENT') throw error;
          await onMissing?.();
          await makeDirectory(path.dirname(file));
          await write();
        });
        await replaceFile(temporary, file);
      } catch (error) {
        await rm(temporary, { force: true }).catch(() => {});
        throw error;
      }
    },

    async remove(name) {
      await rm(at(name), { force: true });
    },
  };
}
