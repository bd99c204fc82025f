/** A folder with those around it. Node's own way goes round for ever where one of them is there and takes no folder (/proc). */
import { mkdir, stat } from 'node:fs/promises';
import path from 'node:path';

export async function makeFolder(folder: string): Promise<void> {
  const around = path.dirname(path.resolve(folder));
  try {
    await make(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    await makeFolder(around);
    await make(folder);
  }
}

/** Another may have made it. */
const make = (folder: string): Promise<void> =>
  mkdir(folder).catch(async (error: unknown) => {
    if (!(await isFolder(folder))) throw error;
  });

const isFolder = (name: string): Promise<boolean> =>
  stat(name).then(
    (found) => found.isDirectory(),
    () => false,
  );
