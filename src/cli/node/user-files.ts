/** Access to files that a user names, with one-sentence errors. */
import { constants, createReadStream } from 'node:fs';
import { access, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { ConfigError } from '../../errors.ts';
import { beginWait } from '../../platform/node/hanging.ts';

const REASONS: Record<string, string> = {
  ENOENT: 'there is no such file or directory',
  EACCES: 'permission denied',
  EISDIR: 'it is a directory',
  ENOTDIR: 'a part of the path is not a directory',
  EEXIST: 'a file of that name already exists',
};

/** Throws ConfigError. `what`: the action that failed, such as 'write'. */
export function refuse(what: string, file: string, error: NodeJS.ErrnoException): never {
  const reason = REASONS[error.code ?? ''] ?? error.message;
  throw new ConfigError(`cannot ${what} ${file}: ${reason}; give another path`, { cause: error });
}

/**
 * UTF-8, or UTF-16 with a byte order mark, as Windows PowerShell's > writes it. The mark, which JSON may not have and some
 * editors write before UTF-8 too, is left out. Throws ConfigError.
 */
export async function textOf(file: string): Promise<string> {
  const endWait = beginWait();
  return readFile(file)
    .then((bytes) => decoderOf(bytes).decode(bytes))
    .catch((error) => refuse('read', file, error))
    .finally(endWait);
}

const decoderOf = ([first, second]: Uint8Array): TextDecoder =>
  new TextDecoder(first === 0xff && second === 0xfe ? 'utf-16le' : 'utf-8');

/** A file's text in pieces; decompressed if the name ends in .gz. Throws ConfigError. */
export async function* piecesOf(file: string): AsyncGenerator<string> {
  const read = createReadStream(file, { highWaterMark: 1 << 18 });
  // A failure destroys the last stream and is thrown from there.
  const bytes = file.endsWith('.gz') ? pipeline(read, createGunzip(), () => {}) : read;
  let endWait = beginWait();
  try {
    for await (const piece of bytes.setEncoding('utf8')) {
      endWait();
      yield piece as string;
      endWait = beginWait();
    }
  } catch (error) {
    refuse('read', file, error as NodeJS.ErrnoException);
  } finally {
    endWait();
  }
}

/** Checks that an existing file, or the folder of a new one, is writable. Throws ConfigError. */
export const checkWritable = (file: string): Promise<void> =>
  writable(file).catch((error) => refuse('write', file, error));

async function writable(file: string): Promise<void> {
  const found = await stat(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return null;
  });
  if (found?.isDirectory()) throw Object.assign(new Error('it is a directory'), { code: 'EISDIR' });
  await access(found ? file : path.dirname(path.resolve(file)), constants.W_OK);
}
