import { describe, expect, it } from 'vitest';
import { runConfigSchema } from '../../src/config/run.ts';
import { RequestError } from '../../src/errors.ts';
import { clusterOptions } from '../../src/fleet/from-config.ts';
import type { ClusterOptions } from '../../src/fleet/types.ts';
import { warmUp } from '../../src/lab/warm-up.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import type { GeneratedToken, GenerateRequest } from '../../src/router/turn-types.ts';
import { FakeCluster } from '../cli/fake-cluster.ts';

/** Remembers how each turn was served. */
class Watched extends FakeCluster {
  readonly served: string[] = [];
  refuses = false;

  override async *generate(request: GenerateRequest): AsyncGenerator<GeneratedToken> {
    const { mode, connector, prefill } = this.settings;
    this.served.push(`${mode}, ${connector.nixl.recomputeThreshold}, ${prefill.enablePrefixCaching}`);
    if (this.refuses) throw new RequestError('no roleset takes the prompt');
    yield* super.generate(request);
  }
}

function watched(change: Partial<ClusterOptions> = {}, settings: object = {}): Watched {
  const config = runConfigSchema.parse({ model: 'nano', ...settings });
  return new Watched({ ...clusterOptions(config, presetArchitecture('nano'), true), ...change }, {});
}

const { signal } = new AbortController();
const now = () => performance.now();
const onTurn = () => {};

describe('the warm-up before modes are compared', () => {
  it('moves KV both ways, whatever the settings, and leaves those as they were', async () => {
    const cluster = watched();
    await cluster.setMode('unidirectional');
    const { settings } = cluster;
    await warmUp(cluster, { signal, now, onTurn });
    expect(cluster.served).toEqual(new Array(4).fill('bidirectional, 0, false'));
    expect(cluster.settings).toEqual(settings);
  });

  it('serves as many conversations as there are P or D', async () => {
    const cluster = watched({}, { prefill: 2, decode: 3 });
    await warmUp(cluster, { signal, now, onTurn });
    expect(cluster.ended).toHaveLength(3);
  });

  it('serves nothing that a fault would spoil, or a folder would keep', async () => {
    const store = { bytes: 2 ** 20, eviction: 'lru' as const, folder: { folder: 'kv', bytes: 2 ** 20 } };
    for (const change of [{ fault: { engine: 'prefill', kind: 'flip-bit' } as const }, { store }]) {
      const cluster = watched(change as Partial<ClusterOptions>);
      await warmUp(cluster, { signal, now, onTurn });
      expect(cluster.served).toEqual([]);
    }
  });

  it('may be refused, but ends with its signal', async () => {
    const cluster = watched();
    await cluster.setMode('unidirectional');
    const { settings } = cluster;
    cluster.refuses = true;
    await warmUp(cluster, { signal, now, onTurn });
    expect(cluster.settings).toEqual(settings);
    const stopped = AbortSignal.abort(new Error('stop'));
    await expect(warmUp(cluster, { signal: stopped, now, onTurn })).rejects.toThrow('stop');
  });
});
