/**
 * A store's folder on disk. A file is written under a temporary name and then renamed, so it is never visible half
 * written. A disk that does not answer is an error.
 */
import { randomBytes } from 'node:crypto';
import { readdir, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { systemClock } from '../clock.ts';
import type { StoreFile, StoreFolder } from '../types.ts';
import { FileCalls } from './file-calls.ts';
import { FileReads, readAtOnce, readWhole } from './file-reads.ts';
import { makeDirectory } from './make-directory.ts';
import { replaceFile } from './replace-file.ts';

/** Suffix of files that are being written: the writer's process id and a random part. */
const TEMPORARY = /\.\d+-[0-9a-f]{12}\.tmp$/;
/** Age after which a temporary file's writer is assumed dead. */
const ABANDONED_MS = 60_000;
/** Permissions of a folder that is created. KV tells what its texts are, and a file's name confirms a guess. */
const OWN = 0o700;

export function directoryFolder(directory: string, calls = new FileCalls()): StoreFolder {
  const root = path.resolve(directory);
  const read = (file: string) => calls.run(() => readWhole(file));
  const remove = (file: string) => calls.run(() => rm(file, { force: true }));
  const reads = new FileReads({ clock: systemClock, read, readNow: readAtOnce });
  const at = (name: string): string => path.join(root, ...name.split('/'));
  return {
    location: directory,

    async isEmpty() {
      return (await calls.run(() => readdir(root))).every((name) => TEMPORARY.test(name));
    },

    async list() {
      const files: StoreFile[] = [];
      const directories = [root];
      for (const directory of directories) {
        for (const entry of await calls.run(() => readdir(directory, { withFileTypes: true }))) {
          const file = path.join(directory, entry.name);
          if (entry.isDirectory()) directories.push(file);
          if (!entry.isFile()) continue;
          // Another process may have removed the file.
          const found = await calls.run(() => stat(file).catch(() => null));
          if (!found) continue;
          if (TEMPORARY.test(entry.name)) {
            if (Date.now() - found.mtimeMs > ABANDONED_MS) await remove(file).catch(() => {});
            continue;
          }
          const name = path.relative(root, file).split(path.sep).join('/');
          files.push({ name, bytes: found.size, modifiedMs: found.mtimeMs });
        }
      }
      return files;
    },

    read: (name) => read(at(name)),

    readFor: (name, most, use) => reads.read(at(name), most, use),

    async write(name, bytes, onMissing) {
      const file = at(name);
      const temporary = `${file}.${process.pid}-${randomBytes(6).toString('hex')}.tmp`;
      const write = () => calls.run(() => writeFile(temporary, bytes));
      try {
        await write().catch(async (error: NodeJS.ErrnoException) => {
          if (error.code !== 'ENOENT') throw error;
          await onMissing?.();
          await calls.run(() => makeDirectory(root, OWN));
          await calls.run(() => makeDirectory(path.dirname(file)));
          await write();
        });
        await calls.run(() => replaceFile(temporary, file));
      } catch (error) {
        await remove(temporary).catch(() => {});
        throw error;
      }
    },

    remove: (name) => remove(at(name)),
  };
}
