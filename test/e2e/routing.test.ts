/** Every routing policy on real engines: tokens of one engine, decisions that can be read, correct cache knowledge. */
import { expect, it } from 'vitest';
import { ROUTING_NAMES } from '../../src/config/routing.ts';
import type { EngineLoad } from '../../src/engine/inspect/engine-load.ts';
import type { EngineCluster } from '../../src/fleet/cluster.ts';
import type { ClusterOptions } from '../../src/fleet/types.ts';
import { addOwnPolicies } from '../../src/router/policies/add-own.ts';
import type { OwnRoutingPolicy } from '../../src/router/policies/own.ts';
import { type Answer, converse, fingerprint, generate, withCluster } from './cluster-fixture.ts';

const pool = { count: 2, numBlocks: 96, enablePrefixCaching: true };
const fleet: Partial<ClusterOptions> = { prefill: pool, decode: pool };

const ids = ['a', 'b', 'c'];
const talk = async (cluster: EngineCluster): Promise<Answer[]> =>
  (await Promise.all(ids.map((id, i) => converse(cluster, id, 2, { seed: i + 1, temperature: 1 })))).flat();

it('every policy gives the tokens and logits of one engine, and reports its candidates', async () => {
  const alone = await withCluster({ mode: 'monolithic' }, talk);
  await withCluster(fleet, async (cluster) => {
    for (const name of [...ROUTING_NAMES, 'least-request:1,prefix-cache:2']) {
      for (const signalAgeMs of [0, 20]) {
        await cluster.configure({ routing: { name, parameters: {} }, signalAgeMs });
        const answers = await talk(cluster);
        expect(fingerprint(answers), name).toEqual(fingerprint(alone));
        for (const { result } of answers) {
          expect(result.routed).toMatchObject({ policy: name });
          expect(result.routed!.candidates.length).toBeGreaterThanOrEqual(2);
        }
      }
    }
  });
});

it('prefix-cache routing knows from cache events how many tokens the chosen P has cached', async () => {
  await withCluster(fleet, async (cluster) => {
    await cluster.configure({ routing: { name: 'prefix-cache', parameters: {} } });
    const found = (answers: Answer[]) =>
      answers.map(({ result: { routed, prompt } }) => [
        routed!.candidates.find(({ side, engineId }) => side === 'prefill' && engineId === routed!.prefill)!
          .cachedTokens,
        prompt.localHitTokens,
      ]);
    const one = found(await converse(cluster, 'a', 4));
    for (const [known, hit] of one) expect(known).toBe(hit);
    expect(one.at(-1)![1]).toBeGreaterThan(0);
    // configure() empties the caches, and the router forgets them.
    await cluster.configure({});
    expect(found(await converse(cluster, 'b', 1))).toEqual([[0, 0]]);
  });
});

it('a policy that a request names later knows what was cached before', async () => {
  await withCluster(fleet, async (cluster) => {
    const ask = (conversationId: string, first: number, routing?: string) => {
      const promptTokenIds = Array.from({ length: 50 }, (_, i) => first + i);
      const sampling = { maxTokens: 2, temperature: 0, seed: 1, ignoreEos: true };
      return generate(cluster, { conversationId, promptTokenIds, sampling, ...(routing ? { routing } : {}) });
    };
    await ask('before', 10);
    await ask('first', 100, 'prefix-cache');
    const { routed, prompt } = (await ask('again', 10, 'prefix-cache')).result;
    const chosen = routed!.candidates.find(({ engineId }) => engineId === routed!.prefill);
    expect([chosen!.cachedTokens, prompt.localHitTokens]).toEqual([48, 48]);
  });
});

it('an unknown policy parameter is refused and leaves the routing unchanged', async () => {
  await withCluster({}, async (cluster) => {
    const parameters = { 'prefix-cache': { imbalanc: 1 } };
    await expect(cluster.configure({ routing: { name: 'prefix-cache', parameters } })).rejects.toThrow(
      'did you mean imbalance?',
    );
    const [answer] = await converse(cluster, 'a', 1);
    expect(answer!.result.routed!.policy).toBe('round-robin');
  });
});

it('engines report their load only while load reports are on, and the last report says idle', async () => {
  await withCluster({}, async (cluster) => {
    const told: EngineLoad[] = [];
    const decode = cluster.engine('decode');
    decode.onEvent((event) => {
      if (event.kind === 'load') told.push(event.load);
    });
    await converse(cluster, 'a', 1);
    expect(told).toEqual([]);
    await decode.inspection.reportLoad(true);
    await converse(cluster, 'b', 2, { outputTokens: 40 });
    await expect.poll(() => told.at(-1)).toMatchObject({ running: 0, waiting: 0 });
    const [stats] = (await cluster.stats()).filter(({ engineId }) => engineId === decode.engineId);
    expect(told.some(({ running }) => running === 1)).toBe(true);
    expect(told.some(({ generationTokensPerSecond }) => generationTokensPerSecond > 10)).toBe(true);
    expect(told.at(-1)!.numBlocks).toBe(stats!.numBlocks - 1);
    await decode.inspection.reportLoad(false);
    const before = told.length;
    await converse(cluster, 'c', 1);
    expect(told.length).toBe(before);
  });
});

it("a policy of the user's own serves, and where it fails only that turn does", async () => {
  const own: OwnRoutingPolicy = {
    name: 'every-other',
    create: () => ({
      route({ number }, { prefill, decode }) {
        if (number % 2 === 1) throw new Error('an odd turn');
        return { prefill: prefill.at(-1)!, decode: decode.at(-1)! };
      },
    }),
  };
  await addOwnPolicies('own.mjs', { importModule: async () => ({ default: own }) });
  await withCluster(fleet, async (cluster) => {
    await cluster.configure({ routing: { name: 'every-other', parameters: {} } });
    const ask = () => converse(cluster, 'a', 1);
    const [first] = await ask();
    expect(first!.result.routed).toMatchObject({
      prefill: 'prefill-1',
      decode: 'decode-1',
      why: 'every-other',
    });
    await expect(ask()).rejects.toThrow(
      'the routing policy every-other of own.mjs failed: route() threw Error: an odd turn',
    );
    expect(fingerprint(await ask())).toEqual(fingerprint([first!]));
  });
});
