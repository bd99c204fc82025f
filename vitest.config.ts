import { defineConfig } from 'vitest/config';

// GPU work in worker threads inside Vitest's own thread pool can crash the addon: every file gets a process. One a core: what
// starts engines or a browser waits about as long as it computes.
export default defineConfig({
  test: {
    ...{ include: ['test/**/*.test.ts'], pool: 'forks', maxWorkers: '100%' },
    // Against hanging, not for speed: a busy machine may be five times slower than a quiet one.
    ...{ testTimeout: 180_000, hookTimeout: 180_000, expect: { poll: { timeout: 60_000 } } },
  },
});
