/** Configuration for screenshots, which are taken on demand and are not tests. */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: { include: ['test/demo/*.shots.ts'], pool: 'forks', testTimeout: 1_200_000, hookTimeout: 120_000 },
});
