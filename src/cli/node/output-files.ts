/**
 * Output files that a user names. A plain file gets its new content whole or not at all: it is written beside the old one,
 * which it then replaces. Whatever else a path may name (a pipe, a device, a link) is written in place.
 */
import { once } from 'node:events';
import { constants } from 'node:fs';
import { access, type FileHandle, lstat, open, rm, stat } from 'node:fs/promises';
import { finished, pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { replaceFile } from '../../platform/node/replace-file.ts';
import type { TextFile } from '../deps.ts';
import { refuse } from './user-files.ts';

interface Output {
  handle: FileHandle;
  /** The file to rename once all is written and closed; null: the named file itself was opened. */
  temporary: string | null;
}

export async function writeTextFile(file: string, content: string): Promise<void> {
  const { handle, temporary } = await opened(file);
  try {
    await handle.writeFile(content).finally(() => handle.close());
    if (temporary !== null) await replaceFile(temporary, file);
  } catch (error) {
    if (temporary !== null) await rm(temporary, { force: true });
    refuse('write', file, error as NodeJS.ErrnoException);
  }
}

/** Compressed if the name ends in .gz, as for reading. */
export async function createTextFile(file: string): Promise<TextFile> {
  const { handle, temporary } = await opened(file);
  const disk = handle.createWriteStream();
  const packed = file.endsWith('.gz') ? createGzip() : null;
  const stream = packed ?? disk;
  let failure: Error | null = null;
  const ended = (packed ? pipeline(packed, disk) : finished(disk)).catch((error: Error) => {
    failure = error;
  });
  return {
    write: (text) => {
      if (!failure) stream.write(text);
    },
    async drained() {
      // close() throws a failure.
      if (stream.writableNeedDrain && !failure) await once(stream, 'drain').catch(() => {});
    },
    async close() {
      stream.end();
      await ended;
      if (temporary !== null && !failure)
        await replaceFile(temporary, file).catch((error: Error) => {
          failure = error;
        });
      if (!failure) return;
      if (temporary !== null) await rm(temporary, { force: true });
      refuse('write', file, failure);
    },
    async discard() {
      stream.end();
      await ended;
      // Never remove a pipe or a device.
      const written = temporary ?? file;
      const found = await stat(written).catch(() => null);
      if (found?.isFile()) await rm(written, { force: true });
    },
  };
}

async function opened(file: string): Promise<Output> {
  const beside = await openedBeside(file).catch(() => null);
  if (beside) return beside;
  const handle = await open(file, 'w').catch((error) => refuse('write', file, error));
  return { handle, temporary: null };
}

/** null, or an error: the file must be written in place, to remain what it is or because its folder takes no other. */
async function openedBeside(file: string): Promise<Output | null> {
  const old = await lstat(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return null;
  });
  if (old && (!old.isFile() || old.nlink > 1)) return null;
  if (old) await access(file, constants.W_OK);
  const temporary = `${file}.${crypto.randomUUID().slice(0, 8)}.tmp`;
  const handle = await open(temporary, 'wx');
  try {
    if (!old) return { handle, temporary };
    await handle.chmod(old.mode & 0o7777);
    const { uid, gid } = await handle.stat();
    if (uid === old.uid && gid === old.gid) return { handle, temporary };
  } catch {
    // As for a file of another user.
  }
  await handle.close();
  await rm(temporary, { force: true });
  return null;
}
