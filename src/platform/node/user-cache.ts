/** Small files in the user's cache folder: what would be found out again costs time only. */
import { rename, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { makeFolder } from './make-folder.ts';

export function userCacheFile(name: string): string {
  const folder = process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache');
  return path.join(folder, 'kvferry', name);
}

/** False when it could not be written: what was there stays. */
export async function writeUserCache(file: string, content: unknown): Promise<boolean> {
  // Whole or not at all: another process may read it.
  const scratch = `${file}.${process.pid}`;
  try {
    await makeFolder(path.dirname(file));
    await writeFile(scratch, `${JSON.stringify(content, null, 2)}\n`);
    await rename(scratch, file);
    return true;
  } catch {
    return false;
  }
}
