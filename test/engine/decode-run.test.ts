/** Steps of nothing but decoding, taken at once: as if each had been taken by itself. */
import { describe, expect, it } from 'vitest';
import type { CacheEvent } from '../../src/engine/cache-event.ts';
import { EngineCore, type EngineCoreDeps } from '../../src/engine/engine-core.ts';
import type { RequestOutput } from '../../src/engine/types.ts';
import { TestClock } from '../clock.ts';
import { chain, engineConfig, request, type Sizes, tokens } from './fakes.ts';

const tokenOf = ({ requestId, numOutputTokens }: { requestId: string; numOutputTokens: number }) =>
  chain(requestId.charCodeAt(0), numOutputTokens) % 97;

/** Whose answer is known, so that its steps need no device. */
const forced = (
  id: string,
  ids: number[],
  sampling: Parameters<typeof request>[2] = {},
  rest: Parameters<typeof request>[3] = {},
) => {
  const forcedTokenIds = Array.from({ length: 100 }, (_, i) =>
    tokenOf({ requestId: id, numOutputTokens: i }),
  );
  return request(id, ids, { forcedTokenIds, ...sampling }, rest);
};

function makeEngine(sizes: Sizes, rest: Partial<EngineCoreDeps> = {}) {
  const outputs: RequestOutput[] = [];
  const events: CacheEvent[] = [];
  const core = new EngineCore({
    config: engineConfig(sizes),
    connector: null,
    clock: new TestClock(),
    executor: {
      execute: async ({ requests }) =>
        requests.flatMap(({ requestId, sample }) => {
          if (!sample) return [];
          const tokenId = tokenOf({ requestId, numOutputTokens: sample.outputIndex });
          return [{ requestId, tokenId, logitsDigest: '', logits: null }];
        }),
    },
    ...rest,
  });
  core.onCacheEvent = (event) => events.push(event);
  const step = async () => {
    outputs.push(...(await core.step()));
    core.inspect.checkIntegrity();
  };
  return { core, outputs, events, step };
}

const ends = (outputs: RequestOutput[]) =>
  outputs.flatMap(({ requestId, finish, prompt }) => (finish ? [{ requestId, finish, prompt }] : []));

describe('decoding at once', () => {
  /** Of requests: tokens of the prompt, and of the answer at most. */
  it.each<[string, Sizes, Record<string, [number, number]>]>([
    ['one request', {}, { a: [20, 40] }],
    ['of lengths that end with blocks', { blockSize: 4 }, { a: [8, 9], b: [7, 13] }],
    ['with one block each token', { blockSize: 1, numBlocks: 80 }, { a: [3, 20], b: [9, 30] }],
    ['in a pool too small for all', { blockSize: 4, numBlocks: 14 }, { a: [12, 20], b: [12, 20] }],
    ['without prefix caching', { blockSize: 4, prefixCaching: false }, { a: [9, 30], b: [12, 20] }],
    ['up to the context', { blockSize: 4, maxModelLen: 30 }, { a: [9, 99], b: [12, 99] }],
  ])('leaves everything as single steps do: %s', async (_, sizes, requests) => {
    const atOnce = makeEngine(sizes);
    const single = makeEngine(sizes);
    const ids = Object.keys(requests);
    for (const [id, [length, maxTokens]] of Object.entries(requests)) {
      for (const { core } of [atOnce, single])
        core.addRequest(forced(id, tokens(length, id.charCodeAt(0)), { maxTokens }));
    }
    let taken = 0;
    while (atOnce.core.hasWork()) {
      const count = atOnce.core.decodeSteps;
      if (count > 0) atOnce.core.decode(count, null);
      else await atOnce.step();
      for (let i = 0; i < Math.max(1, count); i++) await single.step();
      taken += count;
      atOnce.core.inspect.checkIntegrity();
      expect(atOnce.core.inspect.stats()).toEqual(single.core.inspect.stats());
      expect(atOnce.core.inspect.blocks()).toEqual(single.core.inspect.blocks());
      for (const id of ids)
        expect(atOnce.core.inspect.requestState(id)).toEqual(single.core.inspect.requestState(id));
    }
    expect(taken).toBeGreaterThan(9);
    expect(ends(atOnce.outputs)).toEqual(ends(single.outputs));
    expect(ends(single.outputs)).toHaveLength(ids.length);
    expect(atOnce.events).toEqual(single.events);
  });

  it('tells of steps after them, up to those that change blocks, with what the requests have by then', async () => {
    const { core, step } = makeEngine({ blockSize: 16 });
    core.addRequest(forced('a', tokens(10)));
    core.addRequest(forced('b', tokens(20, 1)));
    await step();
    const seen: unknown[] = [];
    expect(core.decodeShape()).toEqual({ requestIds: ['a', 'b'], requests: 2, context: 30 });
    const see = (steps: number) => seen.push([steps, core.inspect.requestState('a')?.numComputedTokens]);
    core.decode(14, see);
    // 'a' fills its first block with its 16th token and begins the next one with its 17th, 'b' fills its second with its 32nd.
    expect(seen).toEqual([
      [5, 15],
      [1, 16],
      [5, 21],
      [1, 22],
      [2, 24],
    ]);
    expect(core.decodeShape()).toEqual({ requestIds: ['a', 'b'], requests: 2, context: 58 });
  });
});

describe('steps that may be taken at once', () => {
  const prefilled = async (
    sampling: Parameters<typeof request>[2],
    sizes: Sizes = {},
    rest: Parameters<typeof request>[3] = {},
    deps: Partial<EngineCoreDeps> = {},
  ) => {
    const engine = makeEngine(sizes, deps);
    engine.core.addRequest(forced('a', tokens(20), sampling, rest));
    expect(engine.core.decodeSteps).toBe(0);
    await engine.step();
    return engine;
  };

  it('end before the one that ends a request, by its own length or the context’s', async () => {
    // One token came with the prompt; the last comes with a step that ends it.
    expect((await prefilled({ maxTokens: 9 })).core.decodeSteps).toBe(7);
    expect((await prefilled({ maxTokens: 2 })).core.decodeSteps).toBe(0);
    expect((await prefilled({ maxTokens: 1 })).core.decodeSteps).toBe(0);
    expect((await prefilled({ maxTokens: 99 }, { maxModelLen: 30 })).core.decodeSteps).toBe(8);
    const { core, step } = await prefilled({ maxTokens: 9 });
    core.addRequest(forced('b', tokens(5, 1), { maxTokens: 5 }));
    expect(core.decodeSteps).toBe(0);
    await step();
    expect(core.decodeSteps).toBe(3);
  });

  it('end before blocks do: then somebody is preempted', async () => {
    const { core, step } = await prefilled({ maxTokens: 14 }, { blockSize: 4, numBlocks: 10 });
    expect(core.decodeSteps).toBe(12);
    core.addRequest(forced('b', tokens(4, 1), { maxTokens: 30 }));
    await step();
    // Of nine usable blocks 'a' has six for 22 tokens, 'b' one for four: 11 steps take five, 5 three, 2 one.
    expect(core.inspect.stats().freeBlocks).toBe(2);
    expect(core.decodeSteps).toBe(2);
    core.decode(2, null);
    expect(core.inspect.stats()).toMatchObject({ freeBlocks: 1, preemptions: 0 });
    core.inspect.checkIntegrity();
  });

  it('are none where a token may end a request, or its prompt is not done', async () => {
    expect((await prefilled({ ignoreEos: false })).core.decodeSteps).toBe(0);
    expect((await prefilled({ stopTokenIds: [5] })).core.decodeSteps).toBe(0);
    expect((await prefilled({}, { maxNumBatchedTokens: 8 })).core.decodeSteps).toBe(0);
    expect((await prefilled({})).core.decodeSteps).toBe(14);
    const noEos = { ...engineConfig(), eosTokenIds: [] };
    expect((await prefilled({ ignoreEos: false }, {}, {}, { config: noEos })).core.decodeSteps).toBe(14);
  });

  it('are none where somebody reads as they are computed', async () => {
    const kvTransferParams = { do_remote_decode: true, do_remote_prefill: false, streamed: true };
    expect((await prefilled({}, {}, { kvTransferParams })).core.decodeSteps).toBe(0);
  });

  it('are none where a window gives blocks back', async () => {
    const groups = [{ kind: 'full' }, { kind: 'sliding', window: 8 }] as const;
    expect((await prefilled({}, { groups })).core.decodeSteps).toBe(0);
  });

  it('are none where somebody waits, or nobody runs', async () => {
    const { core, step } = await prefilled({}, { maxNumSeqs: 1 });
    core.addRequest(forced('b', tokens(5)));
    await step();
    expect(core.decodeSteps).toBe(0);
    expect(makeEngine({}).core.decodeSteps).toBe(0);
  });

  it('are none while a step is under way, after an abort, and where each is told of', async () => {
    const { core, step } = await prefilled({});
    const batch = core.beginStep();
    expect(core.decodeSteps).toBe(0);
    core.endStep(batch, [{ requestId: 'a', tokenId: 7, logitsDigest: '', logits: null }]);
    expect(core.decodeSteps).toBe(13);
    core.abortRequest('a');
    expect(core.decodeSteps).toBe(0);
    await step();
    expect(core.decodeSteps).toBe(0);
    expect((await prefilled({}, {}, {}, { onBatch: () => {} })).core.decodeSteps).toBe(0);
    expect((await prefilled({}, {}, {}, { onActivity: () => {} })).core.decodeSteps).toBe(0);
  });
});
