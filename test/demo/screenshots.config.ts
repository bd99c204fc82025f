/** Screenshots are made on demand, not tested. */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: { include: ['test/demo/*.shots.ts'], pool: 'forks', testTimeout: 1_200_000, hookTimeout: 120_000 },
});
