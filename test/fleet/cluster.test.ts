/** A cluster whose engine threads are fakes that only reply to calls. */
import { expect, test, vi } from 'vitest';
import { parseRunConfig } from '../../src/config/run.ts';
import type { SamplingParams } from '../../src/engine/types.ts';
import { EngineDeadError, RequestError } from '../../src/errors.ts';
import { EngineCluster } from '../../src/fleet/cluster.ts';
import { clusterOptions } from '../../src/fleet/from-config.ts';
import type { PolicyChange } from '../../src/fleet/types.ts';
import { loadArchitecture } from '../../src/model/load.ts';
import type { DrainRule } from '../../src/router/scaling/drain.ts';
import { platformOf } from './fake-threads.ts';

async function started({ platform } = platformOf()): Promise<EngineCluster> {
  Object.assign(platform, { openModel: async () => null, freeMemory: () => null, freeMappings: () => null });
  const config = parseRunConfig({ model: 'nano' });
  return EngineCluster.start(platform, clusterOptions(config, await loadArchitecture('nano', null), true));
}

test.each([
  [{ link: '10gbe' }, 'the link is "10gbe": wanted null, or bytes per second and latency'],
  [{ link: { name: 'none', bytesPerSecond: 0, latencyMs: 0 } }, 'the link is {"name":"none"'],
  [
    { routing: 'llm-d' },
    'the routing is "llm-d": wanted a name and parameters, such as {"name": "llm-d", "parameters": {}}',
  ],
  [{ routing: { name: 'llm-d' } }, 'the routing is {"name":"llm-d"}: wanted a name and parameters'],
  [{ routing: { name: 'llmd', parameters: {} } }, 'there is no routing policy llmd (did you mean llm-d?)'],
  [
    { treshold: 0 },
    "configure() changes no setting 'treshold': wanted some of mode, recomputeThreshold, prefixCaching",
  ],
  [{ prefixCache: true }, 'costProfile (did you mean prefixCaching?)'],
  [{ recomputeThreshold: Number.NaN }, 'recomputeThreshold is NaN: wanted tokens, 0 or more'],
  [{ decoderTtlMs: Number.NaN }, 'decoderTtlMs is NaN: wanted milliseconds, 0 or more'],
  [
    { drain: 'wait' },
    'the drain is "wait": wanted one of wait, migrate, drop and milliseconds, such as {"drain":"wait","holdsMs":30000}',
  ],
  [{ handover: 'push' }, "there is no handover 'push': wanted one of pull, streamed"],
  [{ loadFailurePolicy: 'retry' }, "there is no loadFailurePolicy 'retry': wanted one of fail, recompute"],
])('configure() refuses %j from an untyped caller and changes no settings', async (change, message) => {
  const cluster = await started();
  const before = cluster.settings;
  await expect(cluster.configure(change as PolicyChange)).rejects.toThrow(message);
  expect(cluster.settings).toBe(before);
  await cluster.close();
});

test.each([
  [
    { pull: 'sometimes' as 'always' },
    "pull is 'sometimes': wanted one of threshold, cost-aware, always, never",
  ],
  [
    { sampling: { max_tokens: 5 } as Partial<SamplingParams> },
    "there is no sampling parameter 'max_tokens': wanted some of maxTokens, minTokens, temperature, topK, topP, seed, " +
      'stopTokenIds, ignoreEos, allowedTokenIds, badWordsTokenIds, forcedTokenIds, keepLogits (did you mean maxTokens?)',
  ],
])('generate() refuses %j from an untyped caller', async (fields, message) => {
  const cluster = await started();
  const turn = async () => {
    for await (const _ of cluster.generate({ conversationId: 'a', promptTokenIds: [1], ...fields }));
  };
  await expect(turn()).rejects.toThrow(new RequestError(message));
  await cluster.close();
});

test('scale() refuses a drain rule of an untyped caller that says no time, and changes nothing', async () => {
  const cluster = await started();
  const rule = { drain: 'drop' } as DrainRule;
  await expect(cluster.scale({ prefill: 2 }, rule)).rejects.toThrow('the drain is {"drain":"drop"}: wanted');
  expect(cluster.engines).toHaveLength(2);
  await cluster.close();
});

test('a closed cluster refuses turns, changes of settings, timing and scaling', async () => {
  const cluster = await started();
  await cluster.close();
  const turn = async () => {
    for await (const _ of cluster.generate({ conversationId: 'a', promptTokenIds: [1] }));
  };
  await expect(turn()).rejects.toThrow(EngineDeadError);
  const closed = new RequestError('the cluster is closed: start another');
  await expect(cluster.configure({ recomputeThreshold: 0 })).rejects.toThrow(closed);
  await expect(cluster.setMode('monolithic')).rejects.toThrow(closed);
  await expect(cluster.setTiming('kernels')).rejects.toThrow(closed);
  await expect(cluster.scale({ prefill: 2 })).rejects.toThrow(closed);
});

test('concurrent settings changes are all applied, including those that load a policy', async () => {
  const cluster = await started();
  await Promise.all([
    cluster.configure({ routing: { name: 'llm-d', parameters: {} } }),
    cluster.setMode('unidirectional'),
    cluster.configure({ decodeBlocks: 5 }),
  ]);
  const { mode, routing, decode } = cluster.settings;
  expect([mode, routing?.name, decode.numBlocks]).toEqual(['unidirectional', 'llm-d', 5]);
  await cluster.close();
});

test('an error thrown by a notice listener is logged and affects neither the turn nor other listeners', async () => {
  const { platform, threads } = platformOf();
  const cluster = await started({ platform, threads });
  const said = vi.spyOn(console, 'error').mockReturnValue();
  const own = new Error('of the listener');
  cluster.onNotice(() => {
    throw own;
  });
  const kinds: string[] = [];
  cluster.onNotice(({ kind }) => {
    kinds.push(kind);
    if (kind === 'request') for (const thread of threads) thread.end();
  });
  const messages = [{ role: 'user', content: 'hi' }] as const;
  const turn = async () => {
    for await (const _ of cluster.generate({ conversationId: 'a', messages }));
  };
  await expect(turn()).rejects.toThrow(EngineDeadError);
  expect(kinds.slice(0, 4)).toEqual(['turn', 'request', 'dead', 'dead']);
  expect(said).toHaveBeenCalledTimes(kinds.length);
  expect(said.mock.lastCall).toContain(own);
  said.mockRestore();
  await cluster.close();
});
