import { afterEach, describe, expect, it } from 'vitest';
import { DEFAULT_SAMPLING } from '../../src/engine/sampling.ts';
import { EngineDeadError, RequestError } from '../../src/errors.ts';
import { whileTesting } from '../while-testing.ts';
import {
  converse,
  fingerprint,
  generate,
  startCluster,
  testOptions,
  withCluster,
} from './cluster-fixture.ts';

/** For tests that leave both engines alive. */
const shared = whileTesting(() => startCluster());

afterEach(() => shared().checkIntegrity());

describe('holds', () => {
  it('are dropped oldest first when the pools are too small; P recomputes, and the tokens stay right', async () => {
    const small = {
      prefill: { numBlocks: 14, enablePrefixCaching: true },
      decode: { numBlocks: 14, enablePrefixCaching: true },
    };
    const talk = (options: object) =>
      withCluster({ ...options, maxNumSeqs: 2 }, async (cluster) => {
        const seen: string[] = [];
        const told: string[] = [];
        cluster.onWaiting((_, reason) => told.push(reason));
        const histories = new Map<string, number[]>();
        for (let turn = 0; turn < 3; turn++) {
          for (const id of ['a', 'b', 'c']) {
            const fresh = Array.from(
              { length: 18 },
              (_, i) => 10 + ((id.charCodeAt(0) * 57 + turn * 31 + i * 13) % 400),
            );
            const promptTokenIds = [...(histories.get(id) ?? []), ...fresh];
            const answer = await generate(cluster, {
              conversationId: id,
              promptTokenIds,
              sampling: { maxTokens: 10, ignoreEos: true },
            });
            histories.set(id, [...promptTokenIds, ...answer.result.outputTokenIds]);
            seen.push(...fingerprint([answer]));
          }
        }
        const dropped = (await cluster.stats()).reduce(
          (sum, { transfers }) => sum + transfers!.holdsDropped.decode,
          0,
        );
        return { seen, dropped, told: told.filter((reason) => reason.includes('dropped the oldest')) };
      });
    const roomy = await talk({ mode: 'monolithic' });
    expect(roomy).toMatchObject({ dropped: 0, told: [] });
    const { seen, dropped, told } = await talk(small);
    expect(seen).toEqual(roomy.seen);
    // Reported once, however often it happens.
    expect(dropped).toBeGreaterThan(1);
    expect(told).toEqual([expect.stringMatching(/^decode-0: .*--d-blocks gives it more$/)]);
  });

  it('let concurrent conversations in small pools finish with the tokens of one engine', async () => {
    const ids = ['a', 'b', 'c', 'd', 'e', 'f'];
    const talk = (options: object) =>
      withCluster(options, async (cluster) =>
        (await Promise.all(ids.map((id, i) => converse(cluster, id, 3, { seed: i + 1 })))).map(fingerprint),
      );
    const alone = await talk({ mode: 'monolithic' });
    const small = { numBlocks: 20, enablePrefixCaching: true };
    expect(await talk({ prefill: small, decode: small })).toEqual(alone);
  });

  it('make a request wait with a reason that names the holder and the expiry, until they are released', async () => {
    const prefill = { numBlocks: 10, enablePrefixCaching: false };
    await withCluster({ prefill }, async (cluster) => {
      const told = new Promise<string>((resolve) => cluster.onWaiting((_, reason) => resolve(reason)));
      const engine = cluster.engine('prefill');
      const ask = async (requestId: string) => {
        const promptTokenIds = Array.from({ length: 60 }, (_, i) => 10 + i);
        const kvTransferParams = { do_remote_decode: true, do_remote_prefill: false };
        const sampling = { ...DEFAULT_SAMPLING, maxTokens: 1 };
        for await (const _ of await engine.submit({
          requestId,
          promptTokenIds,
          sampling,
          kvTransferParams,
          cacheSalt: null,
        }));
      };
      await ask('a');
      await ask('b');
      const third = ask('c');
      expect(await told).toMatch(
        /prefill-0: waits for 4 blocks, 1 of 9 are free: 8 of 9 are held for .*D engine.* until \d\d:\d\d:\d\d/,
      );
      await engine.serving.releaseHolds(['a']);
      await third;
      await engine.serving.releaseHolds('all');
    });
  });

  it('are released on D by endConversation', async () => {
    const cluster = shared();
    await converse(cluster, 'c', 1);
    const held = async () => (await cluster.stats()).map((engine) => engine.heldRequests);
    expect((await held())[1]).toBe(1);
    await cluster.endConversation('c');
    await expect.poll(held).toEqual([0, 0]);
  });

  it('leave no block in use on either engine when the reader abandons a turn', async () => {
    const cluster = shared();
    const promptTokenIds = Array.from({ length: 100 }, (_, i) => 10 + i);
    for await (const _ of cluster.generate({
      conversationId: 'c',
      promptTokenIds,
      sampling: { maxTokens: 200, ignoreEos: true },
    }))
      break;
    const used = async () => (await cluster.stats()).map((engine) => engine.usedBlocks);
    await expect.poll(used).toEqual([0, 0]);
  });
});

describe('errors and shutdown', () => {
  it('a request that cannot be served is refused, and the next one works', async () => {
    const cluster = shared();
    const tooLong = Array.from({ length: 2000 }, () => 10);
    await expect(generate(cluster, { conversationId: null, promptTokenIds: tooLong })).rejects.toThrow(
      RequestError,
    );
    await expect(generate(cluster, { conversationId: null, promptTokenIds: [] })).rejects.toThrow(
      RequestError,
    );
    // An id outside the vocabulary would otherwise crash the engine during a step.
    for (const wrong of [
      { promptTokenIds: [10, 2 ** 20] },
      { promptTokenIds: [10], sampling: { maxTokens: 4, forcedTokenIds: [11, 2 ** 20] } },
      { promptTokenIds: [10], sampling: { maxTokens: 4, allowedTokenIds: [2 ** 20] } },
    ])
      await expect(generate(cluster, { conversationId: null, ...wrong })).rejects.toThrow(
        /1048576, which is not a token id of a vocabulary of \d+/,
      );
    expect((await converse(cluster, 'c', 1))[0]!.tokens).toHaveLength(12);
  });

  it('a dead engine rejects its requests at once', async () => {
    await withCluster({}, async (cluster) => {
      const promptTokenIds = Array.from({ length: 100 }, (_, i) => 10 + i);
      const turn = generate(cluster, {
        conversationId: 'c',
        promptTokenIds,
        sampling: { maxTokens: 500, ignoreEos: true },
      });
      const failed = expect(turn).rejects.toThrow(EngineDeadError);
      await cluster.engine('decode').shutdown();
      await failed;
      await expect(converse(cluster, 'd', 1)).rejects.toThrow(EngineDeadError);
    }).catch((error) => expect(error).toBeInstanceOf(EngineDeadError)); // the final check fails on the dead engine
  });

  it('a lost or exhausted device fails its requests with a typed error, and the engine can be revived', async () => {
    await withCluster({}, async (cluster) => {
      const reasons: string[] = [];
      cluster.onNotice((notice) => notice.kind === 'dead' && reasons.push(notice.reason));
      const before = fingerprint(await converse(cluster, 'c', 2));
      const promptTokenIds = Array.from({ length: 100 }, (_, i) => 10 + i);
      const sampling = { maxTokens: 500, ignoreEos: true };
      const turn = generate(cluster, { conversationId: 'd', promptTokenIds, sampling });
      const failed = expect(turn).rejects.toThrow(/engine decode-0 ended: the device was lost/);
      await cluster.engine('decode').lab.loseDevice();
      await failed;
      await expect.poll(() => cluster.engine('decode').dead).toBe(true);
      expect(await cluster.revive()).toBe(1);
      expect(fingerprint(await converse(cluster, 'e', 2))).toEqual(before);

      // The device itself survives, but its engine ends all the same.
      const next = generate(cluster, { conversationId: 'f', promptTokenIds, sampling });
      const out = expect(next).rejects.toThrow(
        /decode-0\.2 ended: the device reported an error: out of memory/,
      );
      await cluster.engine('decode').lab.exhaustDevice();
      await out;
      await expect.poll(() => cluster.engine('decode').dead).toBe(true);
      expect(reasons).toEqual([
        expect.stringMatching(/^the device was lost/),
        expect.stringMatching(/^the device reported an error: out of memory/),
      ]);
      // A dead engine gets the changed setting when it is revived.
      await cluster.configure({ mode: 'unidirectional' });
      expect(await cluster.revive()).toBe(1);
      expect(fingerprint(await converse(cluster, 'g', 2))).toEqual(before);
      const held = async () => (await cluster.stats()).map(({ heldRequests }) => heldRequests);
      await expect.poll(held).toEqual([0, 0]);
    });
  });

  it('a cluster can be started, and closed during a turn, five times in a row', async () => {
    for (let i = 0; i < 5; i++) {
      await withCluster({ model: 'nano', poison: false, prefill: testOptions.prefill }, async (cluster) => {
        const turn = converse(cluster, 'c', 3, { newTokens: 60, outputTokens: 40 }).catch(
          (error: unknown) => error,
        );
        await new Promise((resolve) => setTimeout(resolve, i * 40));
        await cluster.close();
        const ended = await turn;
        if (ended instanceof Error) expect(ended).toBeInstanceOf(EngineDeadError);
      }).catch((error) => expect(error).toBeInstanceOf(EngineDeadError));
    }
  }, 300_000);
});
