/**
 * By module: path prefixes of the tests that must kill its mutants. These tests are quick and need neither a device nor
 * dist/. Tests of whole clusters under random conversations take seconds each and are left out; they would find more.
 */
export const TESTED_BY = {
  engine: [
    'test/engine/',
    'test/connector/scheduler-side',
    'test/connector/hybrid',
    'test/connector/cost-aware',
  ],
  connector: ['test/connector/'],
  transport: ['test/transport/', 'test/connector/streamed-reads', 'test/connector/worker-side'],
  router: ['test/router/'],
};

export const TOO_SLOW = [
  'test/transport/faults.test.ts',
  'test/transport/threads.test.ts',
  'test/transport/property.test.ts',
  'test/connector/faults.test.ts',
  'test/connector/policy-cluster.test.ts',
  'test/connector/unauthorised-reads.test.ts',
  'test/engine/property.test.ts',
  'test/router/fleet-property.test.ts',
  'test/router/scaling/property.test.ts',
  'test/router/policies/any-fleet.test.ts',
];

/** Code that damages KV on purpose, for `verify` to detect. */
export const LEFT_OUT = ['src/transport/faults.ts'];
