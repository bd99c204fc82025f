import { existsSync } from 'node:fs';
import path from 'node:path';
import { defineConfig, type Plugin } from 'vitest/config';

/** What computes on a GPU's adapter in its own process, starts engines, or drives a browser. */
const engines = ['test/{e2e,gpu,model}/**/*.test.ts', 'test/demo/*.test.ts'];

/** Replaces modules that `src` imports, which Vitest can do only in modules that it loads itself. */
const REPLACES = path.join('test', 'cli', 'drivers.test.ts');

/**
 * With KVFERRY_BUILT=1 tests import what `npm run build:node` made of `src`: Node loads it by itself, without Vitest's
 * transforms, and runs it faster.
 */
const built: Plugin = {
  name: 'kvferry-built',
  enforce: 'pre',
  resolveId(source, importer) {
    if (!process.env.KVFERRY_BUILT || !importer || !source.startsWith('.') || importer.endsWith(REPLACES))
      return null;
    const file = path.relative(import.meta.dirname, path.resolve(path.dirname(importer), source));
    if (!/^src[\\/].*\.ts$/.test(file)) return null;
    // A few modules are for browsers only, and are not built for Node.
    const made = path.join(import.meta.dirname, 'dist', file.replace(/ts$/, 'js'));
    return existsSync(made) ? made : null;
  },
};

export default defineConfig({
  test: {
    // GPU work in worker threads inside Vitest's own thread pool can crash the addon. A file a core at once: three on two cores
    // were no quicker.
    ...{ pool: 'forks', maxWorkers: '100%' },
    // Against hanging, not for speed: a busy machine may be five times slower than a quiet one.
    ...{ testTimeout: 180_000, hookTimeout: 180_000, expect: { poll: { timeout: 60_000 } } },
    projects: [
      // Each file in a process of its own: a crash of the addon loses nothing else.
      { extends: true, test: { name: 'engines', include: engines } },
      // All others in the same processes: starting one and loading the modules again took as long as the tests.
      {
        extends: true,
        plugins: [built],
        test: {
          ...{ name: 'plain', include: ['test/**/*.test.ts'], exclude: engines, isolate: false },
          server: { deps: { external: [/\/dist\/src\//] } },
        },
      },
    ],
  },
});
