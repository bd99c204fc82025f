/** Small files in the user's cache folder: what would be found out again costs time only. */
import { rename, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { makeDirectory } from './make-directory.ts';

/** '/', as containers have it, for a user without one: no HOME, and unknown to the system. */
export function homeFolder(): string {
  try {
    return os.homedir();
  } catch {
    return '/';
  }
}

export function userCacheFile(name: string): string {
  const named = process.env.XDG_CACHE_HOME ?? '';
  // By XDG's rule a relative one counts for nothing: it would be another folder wherever a command is called.
  const folder = path.isAbsolute(named) ? named : path.join(homeFolder(), '.cache');
  return path.join(folder, 'kvferry', name);
}

/** False when it could not be written: what was there stays. */
export async function writeUserCache(file: string, content: unknown): Promise<boolean> {
  // Whole or not at all: another process may read it.
  const scratch = `${file}.${process.pid}`;
  try {
    await makeDirectory(path.dirname(file));
    await writeFile(scratch, `${JSON.stringify(content, null, 2)}\n`);
    await rename(scratch, file);
    return true;
  } catch {
    return false;
  }
}
