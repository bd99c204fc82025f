/** A folder with those around it. Node's own way goes round for ever where one of them is there and takes no folder (/proc). */
import { mkdir, stat } from 'node:fs/promises';
import path from 'node:path';

export async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const around = path.dirname(path.resolve(folder));
    if (code === 'ENOENT' && !(await isFolder(around))) {
      await makeFolder(around);
      await makeFolder(folder);
    } else if (!(await isFolder(folder))) throw error;
  }
}

const isFolder = (name: string): Promise<boolean> =>
  stat(name).then(
    (found) => found.isDirectory(),
    () => false,
  );
