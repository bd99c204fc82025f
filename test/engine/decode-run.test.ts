/** Several decode-only steps taken in one call must equal the same steps taken one by one. */
import { describe, expect, it } from 'vitest';
import type { CacheEvent } from '../../src/engine/cache-event.ts';
import { EngineCore, type EngineCoreDeps } from '../../src/engine/engine-core.ts';
import type { RequestOutput } from '../../src/engine/types.ts';
import { TestClock } from '../clock.ts';
import { decodeRequest, ScriptedEngine } from '../connector/scripted.ts';
import { chain, engineConfig, request, type Sizes, tokens } from './fakes.ts';

const tokenOf = ({ requestId, numOutputTokens }: { requestId: string; numOutputTokens: number }) =>
  chain(requestId.charCodeAt(0), numOutputTokens) % 97;

/** A request with a forced answer, so that its steps need no device. */
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

describe('decode steps taken in one call', () => {
  const groups = [{ kind: 'full' }, { kind: 'full' }] as const;

  /** By request: the prompt's tokens and the most tokens to generate. */
  it.each<[string, Sizes, Record<string, [number, number]>]>([
    ['one request', {}, { a: [20, 40] }],
    ['lengths that end at block boundaries', { blockSize: 4 }, { a: [8, 9], b: [7, 13] }],
    ['one token per block', { blockSize: 1, numBlocks: 80 }, { a: [3, 20], b: [9, 30] }],
    ['a pool too small for both requests', { blockSize: 4, numBlocks: 14 }, { a: [12, 20], b: [12, 20] }],
    ['two full KV cache groups', { blockSize: 4, numBlocks: 27, groups }, { a: [12, 20], b: [12, 20] }],
    ['a step that computes the last prompt token only', { maxNumBatchedTokens: 19 }, { a: [20, 12] }],
    [
      'a preempted request that is computed again in chunks',
      { blockSize: 4, numBlocks: 14, maxNumBatchedTokens: 7, prefixCaching: false },
      { a: [12, 20], b: [12, 20] },
    ],
    ['prefix caching off', { blockSize: 4, prefixCaching: false }, { a: [9, 30], b: [12, 20] }],
    ['up to the context length', { blockSize: 4, maxModelLen: 30 }, { a: [9, 99], b: [12, 99] }],
  ])('leave the engine in the same state as single steps do: %s', async (_, sizes, requests) => {
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

  it('are reported in runs split where blocks change, with the requests’ state after each run', async () => {
    const { core, step } = makeEngine({ blockSize: 16 });
    core.addRequest(forced('a', tokens(10)));
    core.addRequest(forced('b', tokens(20, 1)));
    await step();
    const seen: unknown[] = [];
    expect(core.decodeShape()).toEqual({ requestIds: ['a', 'b'], requests: 2, context: 30 });
    const see = (steps: number) => seen.push([steps, core.inspect.requestState('a')?.numComputedTokens]);
    core.decode(14, see);
    // 'a' fills its first block with its 16th token and starts the next with its 17th; 'b' fills its second with its 32nd.
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

describe('the number of decode steps that one call may take', () => {
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

  it('stops before the step that ends a request at maxTokens or the context length', async () => {
    // The prefill sampled the first token; the last one is sampled by the step that ends the request.
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

  it('stops where the forced answer ends, since the next token is the model’s', async () => {
    expect((await prefilled({ forcedTokenIds: [5, 6, 7, 8, 9], maxTokens: 30 })).core.decodeSteps).toBe(4);
  });

  it('stops before the pool runs out of blocks, which would preempt a request', async () => {
    const { core, step } = await prefilled({ maxTokens: 14 }, { blockSize: 4, numBlocks: 10 });
    expect(core.decodeSteps).toBe(12);
    core.addRequest(forced('b', tokens(4, 1), { maxTokens: 30 }));
    await step();
    // Of nine usable blocks, 'a' has six for 22 tokens and 'b' one for four: 11 steps would take five more, 5 three, 2 one.
    expect(core.inspect.stats().freeBlocks).toBe(2);
    expect(core.decodeSteps).toBe(2);
    core.decode(2, null);
    expect(core.inspect.stats()).toMatchObject({ freeBlocks: 1, preemptions: 0 });
    core.inspect.checkIntegrity();
  });

  it('is 0 if a sampled token may end the request or its prompt is not fully computed', async () => {
    expect((await prefilled({ ignoreEos: false })).core.decodeSteps).toBe(0);
    expect((await prefilled({ stopTokenIds: [5] })).core.decodeSteps).toBe(0);
    expect((await prefilled({}, { maxNumBatchedTokens: 8 })).core.decodeSteps).toBe(0);
    expect((await prefilled({})).core.decodeSteps).toBe(14);
    const noEos = { ...engineConfig(), eosTokenIds: [] };
    expect((await prefilled({ ignoreEos: false }, {}, {}, { config: noEos })).core.decodeSteps).toBe(14);
  });

  it('is 0 while the KV is streamed to a reader', async () => {
    const kvTransferParams = { do_remote_decode: true, do_remote_prefill: false, streamed: true };
    expect((await prefilled({}, {}, { kvTransferParams })).core.decodeSteps).toBe(0);
  });

  it('is 0 with a sliding-window group, which frees blocks as it goes', async () => {
    const groups = [{ kind: 'full' }, { kind: 'sliding', window: 8 }] as const;
    expect((await prefilled({}, { groups })).core.decodeSteps).toBe(0);
  });

  it('is 0 while a request waits, and if none runs', async () => {
    const { core, step } = await prefilled({}, { maxNumSeqs: 1 });
    core.addRequest(forced('b', tokens(5)));
    await step();
    expect(core.decodeSteps).toBe(0);
    expect(makeEngine({}).core.decodeSteps).toBe(0);
  });

  it('is 0 while a request whose KV has arrived waits for a block', async () => {
    const engine = new ScriptedEngine({ numBlocks: 7 });
    engine.add(forced('r', tokens(32, 1)));
    engine.add(decodeRequest('d', tokens(60), 2, { remote_num_tokens: 48 }));
    await engine.step();
    await engine.step();
    expect(engine.core.decodeSteps).toBe(13);
    engine.receive('d');
    await engine.step();
    expect(engine.core.inspect.stats()).toMatchObject({ running: 1, waiting: 1 });
    expect(engine.core.decodeSteps).toBe(0);
  });

  it('is 0 during a step, after an abort, and with an onBatch or onActivity listener', async () => {
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
