import { defineConfig } from 'vitest/config';

// GPU work in worker threads inside Vitest's own thread pool can crash the addon: every file gets a process.
export default defineConfig({
  test: { include: ['test/**/*.test.ts'], pool: 'forks', testTimeout: 60_000, hookTimeout: 60_000 },
});
