import { defineConfig } from 'vitest/config';

/**
 * A mutant of a room is held against these tests: what is quick and needs neither a device nor dist/. Whole clusters under
 * random conversations are left out, for they take seconds each, for every mutant again; they find more than is found here.
 */
const TESTED_BY: Record<string, string[]> = {
  engine: ['test/engine', 'test/connector/scheduler-side*'],
  connector: ['test/connector'],
  transport: ['test/transport', 'test/connector/streams*', 'test/connector/worker-side*'],
  router: ['test/router'],
};

export default defineConfig({
  test: {
    dir: '.',
    include: (TESTED_BY[process.env.KVFERRY_MUTATED_ROOM ?? ''] ?? []).map((path) =>
      path.endsWith('*') ? `${path}.test.ts` : `${path}/**/*.test.ts`,
    ),
    exclude: [
      'test/transport/{faults,threads}.test.ts',
      'test/connector/{faults,policy-cluster,strangers}.test.ts',
      'test/router/fleet-property.test.ts',
      'test/router/policies/any-fleet.test.ts',
    ],
    testTimeout: 60_000,
    isolate: false,
  },
});
