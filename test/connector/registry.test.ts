import { expect, it } from 'vitest';
import { CONNECTOR_NAMES, type ConnectorName } from '../../src/config/connectors.ts';
import { createConnector } from '../../src/connector/registry.ts';
import type { ConnectorDeps } from '../../src/connector/types.ts';
import { ConfigError } from '../../src/errors.ts';
import { TestClock } from '../clock.ts';
import { engineConfig } from '../engine/fakes.ts';
import { makeEngine } from '../transport/helpers.ts';
import { connectorDefaults } from './scripted.ts';

const make = (name: string) => {
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
  return createConnector({ ...connectorDefaults, name: name as ConnectorName }, deps);
};

it.each(CONNECTOR_NAMES)('%s is made by its name', (name) => {
  expect(make(name)).toMatchObject({ scheduler: {}, worker: {}, streams: {}, costAware: null });
});

it('an unknown name is refused with those that are known', () => {
  expect(() => make('FooConnector')).toThrow(ConfigError);
  expect(() => make('FooConnector')).toThrow(
    "there is no KV connector 'FooConnector': wanted one of NixlConnector, NixlPullConnector",
  );
});
