/**
 * What a room's mutants are held against, by the beginnings of paths: tests that are quick and need neither a device nor
 * dist/. Whole clusters under random conversations, seconds each, are left out; they find more than is found here.
 */
export const TESTED_BY = {
  engine: [
    'test/engine/',
    'test/connector/scheduler-side',
    'test/connector/hybrid',
    'test/connector/cost-aware',
  ],
  connector: ['test/connector/'],
  transport: ['test/transport/', 'test/connector/streams', 'test/connector/worker-side'],
  router: ['test/router/'],
};

export const TOO_SLOW = [
  'test/transport/faults.test.ts',
  'test/transport/threads.test.ts',
  'test/transport/property.test.ts',
  'test/connector/faults.test.ts',
  'test/connector/policy-cluster.test.ts',
  'test/connector/strangers.test.ts',
  'test/engine/property.test.ts',
  'test/router/fleet-property.test.ts',
  'test/router/scaling/property.test.ts',
  'test/router/policies/any-fleet.test.ts',
];

/** Deliberate damage, which `verify` does to see that it notices. */
export const LEFT_OUT = ['src/transport/faults.ts'];
