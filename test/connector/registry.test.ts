import { expect, it } from 'vitest';
import { CONNECTOR_NAMES, type ConnectorName, OFFLOADING_DEFAULTS } from '../../src/config/connectors.ts';
import type { Composition } from '../../src/config/kv-connectors.ts';
import type { MultiMetadata } from '../../src/connector/multi/scheduler-side.ts';
import type { OffloadingMetadata } from '../../src/connector/offloading/metadata.ts';
import { createConnector } from '../../src/connector/registry.ts';
import type { ConnectorDeps } from '../../src/connector/types.ts';
import { ConfigError } from '../../src/errors.ts';
import { TestClock } from '../clock.ts';
import { engineConfig } from '../engine/fakes.ts';
import { makeEngine } from '../transport/helpers.ts';
import { requestOf } from './fake-connector.ts';
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

it('D leaves saving the prompt to P if its KV comes from P, but not if it comes from the store', () => {
  const names = ['NixlConnector', 'OffloadingConnector'] as const;
  const savedAtD = (name: string, changes: Changes = {}) => {
    const { scheduler, streams } = make(name, changes);
    const request = {
      ...requestOf({ do_remote_prefill: true }),
      numComputedTokens: 100,
      blockHashes: (count = 6) => ['h0', 'h1', 'h2', 'h3', 'h4', 'h5'].slice(0, count),
    };
    scheduler.onNewRequest(request);
    streams!.requestComputed(request, [[1, 2, 3, 4, 5, 6, 7]]);
    const meta = scheduler.buildConnectorMeta() as OffloadingMetadata | MultiMetadata;
    const { saves } = 'metas' in meta ? (meta.metas[1] as OffloadingMetadata) : meta;
    return saves.flatMap(({ hashes }) => hashes).length;
  };
  expect(savedAtD('OffloadingConnector')).toBe(6);
  const multi = (composition: Composition, handsOver = false) =>
    savedAtD('MultiConnector', {
      multi: { composition, names },
      offloading: { ...OFFLOADING_DEFAULTS, handsOver },
    });
  expect([multi('compose'), multi('cost-aware')]).toEqual([0, 0]);
  expect([multi('first-hit'), multi('max-hit'), multi('compose', true)]).toEqual([6, 6, 6]);
});

it('an unknown name is rejected, with the known names', () => {
  expect(() => make('FooConnector')).toThrow(ConfigError);
  expect(() => make('FooConnector')).toThrow(
    "there is no KV connector 'FooConnector': wanted one of NixlConnector, NixlPullConnector",
  );
});
