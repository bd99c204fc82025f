/** P and D together, policy only: conversations, pools full of holds for each other, and random faults. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { KvTransferParams } from '../../src/config/kv-transfer.ts';
import { mostBlocksInAll } from '../../src/engine/kv-cache-spec.ts';
import type { SamplingParams } from '../../src/engine/types.ts';
import { KvferryError } from '../../src/errors.ts';
import { alone, chain, engineConfig, request, someGroups, tokens } from '../engine/fakes.ts';
import { PolicyCluster } from './policy-cluster.ts';

/** Plays a conversation with user messages of the given lengths. Each prompt contains all earlier messages and outputs. */
async function converse(
  cluster: PolicyCluster,
  id: string,
  userTokens: readonly number[],
  sampling: Partial<SamplingParams>,
) {
  let history: number[] = [];
  let params: KvTransferParams | null = null;
  const turns = [];
  for (const [turn, count] of userTokens.entries()) {
    const prompt = [...history, ...tokens(count, chain(id.charCodeAt(1), turn))];
    const result = await cluster.turn(`${id}.${turn}`, prompt, sampling, params);
    turns.push({ prompt, ...result });
    history = [...prompt, ...result.output];
    params = result.params;
  }
  return turns;
}

describe('a conversation of three turns', () => {
  async function run(settings: ConstructorParameters<typeof PolicyCluster>[2], prefixCaching = true) {
    const cluster = new PolicyCluster({ prefixCaching }, {}, settings);
    const sampling = { maxTokens: 10 };
    const turns = await cluster.finish(converse(cluster, 'c1', [40, 30, 30], sampling));
    for (const { prompt, output } of turns) expect(output).toEqual(await alone(prompt, sampling));
    const p = [0, 1, 2].map((turn) => cluster.p.promptOf(`c1.${turn}-p`)!);
    const d = [0, 1, 2].map((turn) => cluster.d.promptOf(`c1.${turn}-d`)!);
    await cluster.release();
    expect(cluster.p.core.resetPrefixCache()).toBe(true);
    expect(cluster.d.core.resetPrefixCache()).toBe(true);
    return { p, d, cluster };
  }

  it("lets P pull D's output, beyond its own prefix cache, if bidirectional", async () => {
    const { p, d } = await run({});
    expect(p.map((a) => [a.localHitTokens, a.pulledTokens, a.computedTokens])).toEqual([
      [0, 0, 40],
      [32, 17, 31],
      [80, 9, 31],
    ]);
    expect(d.map((a) => [a.localHitTokens, a.pulledTokens, a.computedTokens])).toEqual([
      [0, 39, 1],
      [48, 31, 1],
      [80, 39, 1],
    ]);
  });

  it('pulls nothing back with a threshold of 64, because each output is shorter', async () => {
    const { p } = await run({ recomputeThreshold: 64 });
    expect(p.map((a) => a.noPull?.reason ?? null)).toEqual([null, '17 < threshold 64', '9 < threshold 64']);
  });

  it('lets P, without a prefix cache, pull the whole history once that reaches the threshold', async () => {
    const { p } = await run({ recomputeThreshold: 64 }, false);
    expect(p.map((a) => [a.localHitTokens, a.pulledTokens, a.computedTokens])).toEqual([
      [0, 0, 40],
      [0, 0, 80],
      [0, 89, 31],
    ]);
    expect(p[1]!.noPull).toEqual({ by: 'policy', reason: '49 < threshold 64' });
  });

  it("lets P compute D's output, if unidirectional", async () => {
    const { p, d } = await run({ bidirectional: false });
    expect(p.map((a) => [a.localHitTokens, a.pulledTokens, a.computedTokens])).toEqual([
      [0, 0, 40],
      [32, 0, 48],
      [80, 0, 40],
    ]);
    expect(p.map((a) => a.noPull)).toEqual([null, null, null]);
    expect(d.map((a) => a.localHitTokens)).toEqual([0, 48, 80]);
  });
});

describe('a second turn', () => {
  /** `waitMs`: ms since the first turn. D holds its blocks for 480 s, and a READ needs a margin of 5 s. */
  async function secondTurn(waitMs: number, loadFailurePolicy: 'fail' | 'recompute') {
    const cluster = new PolicyCluster({}, {}, { loadFailurePolicy });
    const sampling = { maxTokens: 10 };
    const play = (...turn: Parameters<PolicyCluster['turn']>) =>
      cluster.finish(cluster.turn(...turn), { idleMs: 0 });
    const first = await play('1', tokens(40), sampling, null);
    cluster.clock.advance(waitMs);
    const prompt = [...tokens(40), ...first.output, ...tokens(20, 5)];
    const second = await play('2', prompt, sampling, first.params);
    return { second, account: cluster.p.promptOf('2-p'), expected: await alone(prompt, sampling) };
  }

  it('after 474 s pulls', async () => {
    const { account } = await secondTurn(474_000, 'recompute');
    expect(account).toMatchObject({ pulledTokens: 17, noPull: null });
  });

  for (const waitMs of [476_000, 481_000]) {
    it(`after ${waitMs / 1000} s recomputes, and gives the same tokens`, async () => {
      const { second, account, expected } = await secondTurn(waitMs, 'recompute');
      expect(account).toMatchObject({ localHitTokens: 32, pulledTokens: 0, computedTokens: 38 });
      expect(account!.noPull?.reason).toMatch(/^pull expired: /);
      expect(second.output).toEqual(expected);
    });
  }

  it("after 476 s ends with an error under the load failure policy 'fail'", async () => {
    const { second } = await secondTurn(476_000, 'fail');
    expect(second.end.finish).toMatchObject({ reason: 'error', kvTransferParams: null });
    expect(second.end.finish!.error).toMatchObject({
      code: 'expired',
      message: expect.stringMatching(/did not arrive \(expired\)/),
    });
  });
});

it('handovers that D never reads block P for 10 s, not for their whole lease', async () => {
  const sizes = { blockSize: 4, numBlocks: 12, prefixCaching: false };
  const cluster = new PolicyCluster(sizes, sizes);
  const params = { do_remote_decode: true, do_remote_prefill: false };
  for (const id of ['x', 'y'])
    cluster.p.add(request(id, tokens(20), { maxTokens: 1 }, { kvTransferParams: params }));
  await cluster.runUntil(() => cluster.p.holds.list().length === 2);
  const start = cluster.clock.now();
  const conversation = converse(cluster, 'c1', [24], { maxTokens: 4 });
  const [turn] = await cluster.finish(conversation, { idleMs: 1_000 });
  expect(turn!.output).toEqual(await alone(turn!.prompt, { maxTokens: 4 }));
  expect(cluster.clock.now() - start).toBe(10_000);
  await cluster.release();
});

it.each(['pull', 'streamed'] as const)(
  '%s: with both pools full of holds for each other, D drops its oldest, and every turn ends',
  async (handover) => {
    // Each pool has room for one request and a half.
    const sizes = { blockSize: 4, numBlocks: 20, prefixCaching: false, maxNumSeqs: 4 };
    const cluster = new PolicyCluster(sizes, sizes);
    cluster.handover = handover;
    const sampling = { maxTokens: 6 };
    const conversations = ['c1', 'c2', 'c3', 'c4'].map((id) => converse(cluster, id, [14, 10, 10], sampling));
    const start = cluster.clock.now();
    const all = await cluster.finish(Promise.all(conversations));
    // No request waited for a deadline: everything that frees blocks reports it.
    expect(cluster.clock.now() - start).toBe(0);
    for (const turns of all) {
      for (const { prompt, output, end } of turns) {
        expect(end.finish!.reason).toBe('length');
        expect(output).toEqual(await alone(prompt, sampling));
      }
    }
    const reasons = cluster.p.outputs.flatMap((output) => output.prompt?.noPull?.reason ?? []);
    expect(reasons.some((reason) => reason.startsWith('pull declined'))).toBe(true);
    await cluster.release();
  },
);

it.each(['pull', 'streamed'] as const)(
  '%s: tokens stay the same under random delays, failures, expiries, aborts, preemptions and drops',
  async (handover) => {
    const conversation = fc.record({
      userTokens: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 4 }),
      maxTokens: fc.integer({ min: 1, max: 8 }),
      abortTurn: fc.option(fc.nat(3)),
    });
    const settings = fc.record({
      blockSize: fc.constantFrom(1, 2, 4),
      spare: fc.tuple(fc.nat(10), fc.nat(10)),
      budget: fc.integer({ min: 2, max: 30 }),
      maxNumSeqs: fc.integer({ min: 1, max: 4 }),
      threshold: fc.constantFrom(0, 0, 3, 8),
      prefixCaching: fc.tuple(fc.boolean(), fc.boolean()),
      bidirectional: fc.constantFrom(true, true, true, false),
      groups: someGroups,
      failureRate: fc.constantFrom(0, 0, 4),
      idleMs: fc.constantFrom(1_000, 12_000, 40_000, 500_000),
      seed: fc.nat(),
    });
    const seen = { pulledByP: 0, declined: 0, failed: 0, preemptions: 0, aborted: 0 };
    await fc.assert(
      fc.asyncProperty(
        fc.array(conversation, { minLength: 1, maxLength: 4 }),
        settings,
        async (conversations, s) => {
          let state = s.seed;
          const pick = (count: number) => {
            state = chain(state, count);
            return state % count;
          };
          const longest = conversations.map((c) => c.userTokens.reduce((sum, n) => sum + n + c.maxTokens, 0));
          const { blockSize, groups } = s;
          const common = { blockSize, groups, maxNumBatchedTokens: s.budget, maxNumSeqs: s.maxNumSeqs };
          const blocks = 1 + mostBlocksInAll(Math.max(...longest), engineConfig(common));
          const cluster = new PolicyCluster(
            { ...common, numBlocks: blocks + s.spare[0], prefixCaching: s.prefixCaching[0] },
            { ...common, numBlocks: blocks + s.spare[1], prefixCaching: s.prefixCaching[1] },
            { recomputeThreshold: s.threshold, bidirectional: s.bidirectional },
          );
          cluster.handover = handover;
          cluster.net.failsNext = () => s.failureRate > 0 && pick(s.failureRate) === 0;
          let ended = 0;
          const all = conversations.map(async ({ userTokens, maxTokens }, i) => {
            const turns = await converse(cluster, `c${i}`, userTokens, { maxTokens, seed: i });
            ended++;
            return turns;
          });
          const aborts = conversations.flatMap(({ abortTurn }, i) =>
            abortTurn === null ? [] : [`c${i}.${abortTurn}`],
          );
          const done = () => {
            for (const id of aborts) {
              if (pick(6) === 0) cluster.p.core.abortRequest(`${id}-p`);
              if (pick(6) === 0) cluster.d.core.abortRequest(`${id}-d`);
            }
            return ended === all.length;
          };
          await cluster.runUntil(done, { pick, idleMs: s.idleMs });
          for (const [i, turns] of (await Promise.all(all)).entries()) {
            for (const { prompt, output, end } of turns) {
              const reference = await alone(prompt, { maxTokens: conversations[i]!.maxTokens, seed: i });
              expect(output).toEqual(reference.slice(0, output.length));
              if (end.finish!.reason === 'abort') seen.aborted++;
              else expect([end.finish!.reason, output.length]).toEqual(['length', reference.length]);
            }
          }
          await cluster.release();
          for (const node of [cluster.p, cluster.d]) {
            expect(node.core.inspect.stats()).toMatchObject({ usedBlocks: 0, heldRequests: 0 });
            expect(node.core.resetPrefixCache()).toBe(true);
            seen.preemptions += node.core.inspect.stats().preemptions;
            for (const { prompt } of node.outputs.filter((output) => output.finish)) {
              if (prompt?.noPull?.reason.startsWith('pull declined')) seen.declined++;
              if (prompt?.noPull?.reason.startsWith('pull failed')) seen.failed++;
              if (node === cluster.p) seen.pulledByP += prompt?.pulledTokens ?? 0;
            }
          }
        },
      ),
      // A fixed seed, so that the counts below do not depend on luck.
      { numRuns: 200, seed: 20261120 },
    );
    // Every kind of event must have occurred.
    for (const [what, count] of Object.entries(seen)) expect(count, what).toBeGreaterThan(0);
  },
);

it.each(['pull', 'streamed'] as const)(
  '%s: of 480 turns aborted at random moments, only completed ones leave holds',
  async (handover) => {
    const sizes = { blockSize: 4, numBlocks: 2_000, maxNumSeqs: 480, maxNumBatchedTokens: 20 };
    const cluster = new PolicyCluster(sizes, sizes);
    cluster.handover = handover;
    let state = 1;
    const pick = (count: number) => {
      state = chain(state, count);
      return state % count;
    };
    const gone = new KvferryError('request', 'the client left');
    const turns = Array.from({ length: 480 }, (_, i) => {
      const client = new AbortController();
      const turn = cluster.turn(`t${i}`, tokens(9, i), { maxTokens: 1 + (i % 3) }, null, client.signal);
      const left = { client, over: false };
      void turn
        .catch(() => {})
        .finally(() => {
          left.over = true;
        });
      return left;
    });
    await cluster.runUntil(
      () => {
        turns[pick(turns.length)]!.client.abort(gone);
        for (let more = 0; more < 4; more++) cluster.net.deliver(pick);
        return turns.every(({ over }) => over);
      },
      { pick },
    );
    for (const { client } of turns) client.abort(gone);
    await cluster.settle();
    const taken = new Set(cluster.taken);
    expect(taken.size).toBeGreaterThan(3);
    expect(taken.size).toBeLessThan(turns.length);
    expect(cluster.p.holds.list()).toEqual([]);
    expect(cluster.d.holds.list().filter(({ requestId }) => !taken.has(requestId))).toEqual([]);
    await cluster.release();
  },
);

describe('a request that is stopped while a step runs, then given up', () => {
  it('leaves no hold, although it is released before the step ends', async () => {
    const cluster = new PolicyCluster({}, {});
    const { p, d } = cluster;
    let batches = 0;
    d.model.duringBatch = () => {
      if (++batches !== 2) return;
      void d.stop('c-d');
      void d.abort('c-d').then(() => d.release(['c-d']));
    };
    void cluster.turn('c', tokens(20), { maxTokens: 30 }, null);
    await cluster.runUntil(() => d.endOf('c-d') !== null);
    await cluster.settle();
    expect(batches).toBe(2);
    expect(d.finishOf('c-d')).toMatchObject({ reason: 'stop' });
    for (const { core } of [p, d])
      expect(core.inspect.stats()).toMatchObject({ usedBlocks: 0, heldRequests: 0 });
  });
});

describe('a request that D refuses', () => {
  async function handedOver() {
    const cluster = new PolicyCluster({}, {});
    const params = { do_remote_decode: true, do_remote_prefill: false };
    cluster.p.add(request('x-p', tokens(20), { maxTokens: 1 }, { kvTransferParams: params }));
    await cluster.settle();
    const kvTransferParams = cluster.p.finishOf('x-p')!.kvTransferParams!;
    return { cluster, kvTransferParams, held: () => cluster.p.holds.list().length };
  }

  it("before it reaches D's core makes P free its hold, if the parameters prove what P holds", async () => {
    const { cluster, kvTransferParams, held } = await handedOver();
    cluster.d.core.refuseRequest({ promptTokenIds: [], kvTransferParams, cacheSalt: 'another' });
    const lie = { ...kvTransferParams, remote_token_ids: tokens(20, 1) };
    cluster.d.core.refuseRequest({ promptTokenIds: [], kvTransferParams: lie, cacheSalt: null });
    await cluster.settle();
    expect(held()).toBe(1);
    cluster.d.core.refuseRequest({ promptTokenIds: [], kvTransferParams, cacheSalt: null });
    await cluster.settle();
    expect(held()).toBe(0);
  });

  it('because another request has its id makes P free the hold that it names', async () => {
    const { cluster, kvTransferParams, held } = await handedOver();
    cluster.d.add(request('x-d', tokens(9), { maxTokens: 50 }));
    await cluster.d.step();
    const again = request('x-d', tokens(20), {}, { kvTransferParams });
    expect(() => cluster.d.core.addRequest(again)).toThrow('choose another id');
    await cluster.settle();
    expect(held()).toBe(0);
  });

  it('because it came twice does not stop the first one from reading', async () => {
    const { cluster, kvTransferParams } = await handedOver();
    const once = request('x-d', tokens(20), { maxTokens: 3 }, { kvTransferParams });
    cluster.d.add(once);
    expect(() => cluster.d.core.addRequest(once)).toThrow('choose another id');
    await cluster.settle();
    expect(cluster.d.promptOf('x-d')).toMatchObject({ pulledTokens: 19 });
    await cluster.release();
  });
});
