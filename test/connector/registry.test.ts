import { expect, it } from 'vitest';
import { CONNECTOR_NAMES, type ConnectorName } from '../../src/config/connectors.ts';
import { createConnector } from '../../src/connector/registry.ts';
import type { ConnectorDeps } from '../../src/connector/types.ts';
import { ConfigError } from '../../src/errors.ts';
import { TestClock } from '../clock.ts';
import { engineConfig } from '../engine/fakes.ts';
import { makeEngine } from '../transport/helpers.ts';
import { type Changes, connectorWith } from './scripted.ts';

const make = (name: string, changes: Changes = {}) => {
  const clock = new TestClock();
  const { transport } = makeEngine('engine', { clock });
  const deps: ConnectorDeps = {
    engine: engineConfig(),
    transport,
    clock,
    onPull() {},
    onHoldDropped() {},
    onChunk() {},
    onStored() {},
    onTransfer() {},
  };
  return createConnector({ ...connectorWith(changes), name: name as ConnectorName }, deps);
};

it.each(CONNECTOR_NAMES)('createConnector creates %s by its name', (name) => {
  expect(make(name)).toMatchObject({ scheduler: {}, worker: {}, streams: {}, costAware: null });
});

it('NIXL has holds, offloading a store, and a MultiConnector what its list has (default: NIXL)', () => {
  const has = (name: string, changes?: Changes) => {
    const { holds, store, counters } = make(name, changes);
    expect(counters.pullsNotDone).toEqual({ declined: 0, expired: 0, refused: 0, failed: 0, dead: 0 });
    return [holds !== undefined, store !== undefined];
  };
  expect(has('NixlConnector')).toEqual([true, false]);
  expect(has('OffloadingConnector')).toEqual([false, true]);
  expect(has('MultiConnector')).toEqual([true, false]);
  const multi = { composition: 'compose' as const, names: ['NixlConnector', 'OffloadingConnector'] as const };
  expect(has('MultiConnector', { multi })).toEqual([true, true]);
});

it('an unknown name is rejected, with the known names', () => {
  expect(() => make('FooConnector')).toThrow(ConfigError);
  expect(() => make('FooConnector')).toThrow(
    "there is no KV connector 'FooConnector': wanted one of NixlConnector, NixlPullConnector",
  );
});
