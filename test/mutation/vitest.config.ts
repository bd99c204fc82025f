import { defineConfig } from 'vitest/config';

/** A mutant of a room is held against these rooms' tests. */
const TESTED_BY: Record<string, string> = {
  engine: '{engine,connector}',
  connector: '{engine,connector}',
  transport: 'transport',
  router: 'router',
};

// What is quick and needs neither a device nor dist/. The left out ones take seconds each, for every mutant again.
export default defineConfig({
  test: {
    include: [`test/${TESTED_BY[process.env.KVFERRY_MUTATED_ROOM ?? '']}/**/*.test.ts`],
    exclude: [
      'test/transport/{faults,threads}.test.ts',
      'test/router/fleet-property.test.ts',
      'test/router/policies/any-fleet.test.ts',
    ],
    testTimeout: 20_000,
    isolate: false,
  },
});
