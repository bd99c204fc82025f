/** Runs a user's JavaScript module. */
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { ConfigError } from '../../errors.ts';

const REASONS: Readonly<Record<string, string>> = {
  ERR_MODULE_NOT_FOUND: 'it, or a module that it imports, does not exist',
  ERR_UNSUPPORTED_DIR_IMPORT: 'it is a directory',
  ERR_UNKNOWN_FILE_EXTENSION: `Node ${process.versions.node} cannot run files of this kind`,
  ERR_IMPORT_ATTRIBUTE_MISSING: 'it is JSON',
};

/** What the module exports. Throws ConfigError. */
export async function importModule(file: string): Promise<unknown> {
  try {
    return await import(/* @vite-ignore */ pathToFileURL(path.resolve(file)).href);
  } catch (cause) {
    const reason = REASONS[(cause as NodeJS.ErrnoException)?.code ?? ''] ?? String(cause);
    throw new ConfigError(`cannot load ${file}: ${reason}; wanted a JavaScript module (.js, .mjs)`, {
      cause,
    });
  }
}
