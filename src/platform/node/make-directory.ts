/**
 * Creates a directory and its parents. Node's recursive mkdir never returns if an existing parent accepts no
 * directories, as in /proc.
 */
import { existsSync, mkdirSync } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import path from 'node:path';

/** `mode`: the directory's permissions, not those of its parents, if it is created. */
export async function makeDirectory(directory: string, mode = 0o777): Promise<void> {
  if (await isDirectory(directory)) return;
  const parent = path.dirname(directory);
  if (parent !== directory) await makeDirectory(parent);
  await mkdir(directory, mode).catch(async (error: NodeJS.ErrnoException) => {
    // Another process may have created it.
    if (await isDirectory(directory)) return;
    throw error.code === 'ENOENT' ? new Error(`no directory can be created in ${parent}`) : error;
  });
}

export function makeDirectorySync(directory: string): void {
  if (existsSync(directory)) return;
  makeDirectorySync(path.dirname(directory));
  try {
    mkdirSync(directory);
  } catch (error) {
    // Another thread may have created it.
    if (!existsSync(directory)) throw error;
  }
}

const isDirectory = (file: string): Promise<boolean> =>
  stat(file).then(
    (found) => found.isDirectory(),
    () => false,
  );
