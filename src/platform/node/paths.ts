/** Where the package's own files are, whether compiled (dist/) or run from source by the tests. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { InternalError } from '../../errors.ts';

function findPackageRoot(): string {
  let folder = path.dirname(fileURLToPath(import.meta.url));
  while (!existsSync(path.join(folder, 'package.json'))) {
    const parent = path.dirname(folder);
    if (parent === folder) throw new InternalError(`no package.json above ${import.meta.url}`);
    folder = parent;
  }
  return folder;
}

export const packageRoot = findPackageRoot();

/** A file of the build for what starts by itself: the program, a thread, a child process (vite.node.config.ts). */
export const bundled = (entry: string): string => path.join(packageRoot, 'dist', 'bundle', `${entry}.js`);
