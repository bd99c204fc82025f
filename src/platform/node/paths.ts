/** Locates the package's own files, both when compiled (dist/) and when tests run from source. */
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

/** A bundle: the program, a thread's entry point, or a child process (vite.node.config.ts). */
export const bundled = (entry: string): string => path.join(packageRoot, 'dist', 'bundle', `${entry}.js`);
