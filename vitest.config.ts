import { defineConfig } from 'vitest/config';

/** What computes on a GPU's adapter in its own process, starts engines, or drives a browser. */
const engines = ['test/{e2e,gpu,model}/**/*.test.ts', 'test/demo/*.test.ts'];

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
        test: { name: 'plain', include: ['test/**/*.test.ts'], exclude: engines, isolate: false },
      },
    ],
  },
});
