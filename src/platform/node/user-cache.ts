/** Small files in the user's cache folder. Losing one costs only the time to recompute it. */
import { writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { makeDirectory } from './make-directory.ts';
import { replaceFile } from './replace-file.ts';

/**
 * '/' for a user without a home directory, as in containers: HOME is empty or relative, or unset and the system does not know
 * the user.
 */
export function homeFolder(): string {
  try {
    const home = os.homedir();
    return path.isAbsolute(home) ? home : '/';
  } catch {
    return '/';
  }
}

export function userCacheFile(name: string): string {
  const named = process.env.XDG_CACHE_HOME ?? '';
  // XDG says to ignore a relative path: it would depend on the current directory.
  const folder = path.isAbsolute(named) ? named : path.join(homeFolder(), '.cache');
  return path.join(folder, 'kvferry', name);
}

/** Returns false if it could not be written; the old file then remains. */
export async function writeUserCache(file: string, content: unknown): Promise<boolean> {
  // Written under another name and renamed: another process may be reading it.
  const scratch = `${file}.${process.pid}`;
  try {
    await makeDirectory(path.dirname(file));
    await writeFile(scratch, `${JSON.stringify(content, null, 2)}\n`);
    await replaceFile(scratch, file);
    return true;
  } catch {
    return false;
  }
}
