/** The engine's interface: what it refuses, ends and forgets, and when it is due. */
import { describe, expect, it } from 'vitest';
import { EngineCore } from '../../src/engine/engine-core.ts';
import type { KvConnector, RefusedRequest } from '../../src/engine/kv-connector.ts';
import { settled, TestClock } from '../clock.ts';
import { decodeRequest, ScriptedEngine } from '../connector/scripted.ts';
import { EOS, engineConfig, KvModel, request, TestEngine, tokens } from './fakes.ts';

const nothing = { finishedSending: [], finishedRecving: [], failedRecving: [], changed: false };

/** An engine whose connector offers nothing and whose two sides are due at the given times. */
function coreDue(scheduler: number | null, worker?: number | null) {
  const refused: RefusedRequest[] = [];
  const connector: KvConnector = {
    scheduler: {
      onNewRequest: () => {},
      getNumNewMatchedTokens: () => ({ tokens: 0, noPull: null }),
      updateStateAfterAlloc: () => {},
      buildConnectorMeta: () => null,
      metaDueMs: () => scheduler,
      updateConnectorOutput: () => {},
      requestFinished: () => ({ delayFree: false, kvTransferParams: null }),
      requestRefused: (one) => refused.push(one),
    },
    worker: {
      startLoadKv: () => {},
      getFinished: () => nothing,
      waitForChange: () => new Promise(() => {}),
      ...(worker === undefined ? {} : { dueMs: () => worker }),
    },
  };
  const config = engineConfig();
  const clock = new TestClock(1000);
  const core = new EngineCore({ config, executor: new KvModel(16), connector, clock });
  return { core, refused, clock, connector };
}

describe('the due time of an engine', () => {
  it.each([
    [null, null, null],
    [5000, null, 5000],
    [null, 7000, 7000],
    [5000, 7000, 5000],
    [9000, 7000, 7000],
    [5000, undefined, 5000],
    [null, undefined, null],
  ])('is the earlier of scheduler side %s and worker side %s: %s', (scheduler, worker, due) => {
    expect(coreDue(scheduler, worker).core.dueMs()).toBe(due);
  });

  it('is null without a connector', () => {
    expect(new TestEngine(engineConfig()).core.dueMs()).toBeNull();
  });

  it('ends waitForChange() when it is reached, and the engine then has work', async () => {
    const { core, clock } = coreDue(5000);
    expect([core.poll(), core.hasWork()]).toEqual([false, false]);
    let over = false;
    const waiting = core.waitForChange(new AbortController().signal).then(() => {
      over = true;
    });
    clock.advance(3999);
    await settled();
    expect(over).toBe(false);
    clock.advance(1);
    await waiting;
    expect([core.poll(), core.hasWork()]).toEqual([true, true]);
    await core.waitForChange(new AbortController().signal);
  });

  it('is not waited for if the signal is already aborted', async () => {
    await coreDue(null).core.waitForChange(AbortSignal.abort());
    await new TestEngine(engineConfig()).core.waitForChange(AbortSignal.abort());
  });
});

describe('a refused request', () => {
  const params = { do_remote_prefill: true, do_remote_decode: false, remote_request_id: 'there' };

  it('is reported to the connector if that has requestRefused', () => {
    const { core, refused, connector } = coreDue(null);
    const one = request('a', [], {}, { kvTransferParams: params });
    core.refuseRequest(one);
    expect(refused).toEqual([one]);
    delete connector.scheduler.requestRefused;
    core.refuseRequest(one);
    new TestEngine(engineConfig()).core.refuseRequest(one);
    expect(refused).toHaveLength(1);
  });

  it('is reported when its id is in use, unless both requests name the same remote request', () => {
    const { core, refused } = coreDue(null);
    core.addRequest(request('a', tokens(5), {}, { kvTransferParams: params }));
    const again = (remote: string) =>
      core.addRequest(
        request('a', tokens(5), {}, { kvTransferParams: { ...params, remote_request_id: remote } }),
      );
    expect(() => again('there')).toThrow('has not ended');
    expect(refused).toEqual([]);
    expect(() => again('elsewhere')).toThrow('has not ended');
    expect(refused.map(({ kvTransferParams }) => kvTransferParams?.remote_request_id)).toEqual(['elsewhere']);
  });

  const door = () => new TestEngine(engineConfig({ maxModelLen: 20 }));

  it.each([
    [{ minTokens: -1 }, 'minTokens is -1'],
    [{ minTokens: 1.5 }, 'minTokens is 1.5'],
    [{ maxTokens: 1.5 }, 'maxTokens is 1.5'],
    [{ temperature: -1 }, 'temperature is -1'],
    [{ temperature: Number.NaN }, 'temperature is NaN'],
    [{ temperature: Number.POSITIVE_INFINITY }, 'temperature is Infinity'],
    [{ topK: -1 }, 'topK is -1'],
    [{ topK: 1.5 }, 'topK is 1.5'],
    [{ topP: 0 }, 'topP is 0'],
    [{ topP: 1.5 }, 'topP is 1.5'],
    [{ topP: Number.NaN }, 'topP is NaN'],
    [{ seed: 0.5 }, 'seed is 0.5'],
    [{ stopTokenIds: [7, -1] }, 'stopTokenIds holds -1'],
    // Only a caller without types can send these; they would end the engine for every request.
    [{ stopTokenIds: null as never }, 'stopTokenIds is null'],
    [{ badWordsTokenIds: null as never }, 'badWordsTokenIds is not a list of lists'],
    [{ badWordsTokenIds: [[7], 8] as never }, 'badWordsTokenIds is not a list of lists'],
    [{ badWordsTokenIds: [[7, -1]] }, 'badWordsTokenIds holds -1'],
    [{ badWordsTokenIds: [[7], []] }, 'badWordsTokenIds holds []'],
    [{ allowedTokenIds: [] }, 'allowedTokenIds is []'],
    [{ forcedTokenIds: [0.5] }, 'forcedTokenIds holds 0.5'],
  ])('with %j throws "%s"', (sampling, told) => {
    expect(() => door().add(request('a', tokens(5), sampling))).toThrow(told);
  });

  it('with a cacheSalt that is not a string throws, since untyped callers can send one', () => {
    const salted = request('a', tokens(5), {}, { cacheSalt: 5 as never });
    expect(() => door().add(salted)).toThrow('cacheSalt is 5: give a string');
  });

  it('with a cacheSalt that has half of a surrogate pair throws: it would be hashed as any other half', () => {
    const half = request('a', tokens(5), {}, { cacheSalt: 'salt \ud83d' });
    expect(() => door().add(half)).toThrow('cacheSalt has half of a surrogate pair');
    expect(() => door().add(request('a', tokens(5), {}, { cacheSalt: 'salt 🧂' }))).not.toThrow();
  });

  it('is not one that exactly fits the context', async () => {
    const engine = door();
    engine.add(request('a', tokens(19), { maxTokens: 2, minTokens: 2 }));
    await engine.settle();
    expect(engine.tokensOf('a')).toHaveLength(1);
  });
});

it('onBatch gets each batch with its duration, and is not called for a step without a batch', async () => {
  const told: [string[], number][] = [];
  const clock = new TestClock(100);
  const engine = new TestEngine(engineConfig({ maxNumSeqs: 1 }), {
    clock,
    onBatch: ({ requests }, ms) => told.push([requests.map(({ requestId }) => requestId), ms]),
  });
  engine.model.duringBatch = () => clock.advance(7);
  engine.add(request('a', tokens(5), { maxTokens: 1 }));
  await engine.step();
  engine.core.abortRequest('a');
  await engine.step();
  expect(told).toEqual([[['a'], 7]]);
});

it('tokens dropped by forgetPrefix are computed again; kept tokens and other salts still hit', async () => {
  const engine = new TestEngine(engineConfig());
  engine.add(request('a', tokens(64), { maxTokens: 1 }));
  await engine.settle();
  engine.core.forgetPrefix(tokens(64), null, 32);
  engine.add(request('b', tokens(64), { maxTokens: 1 }));
  await engine.settle();
  expect(engine.promptOf('b')).toMatchObject({ localHitTokens: 32, computedTokens: 32 });
  engine.core.forgetPrefix(tokens(64), 'salt', 0);
  expect(engine.core.inspect.lookup(tokens(64), null).cachedTokens).toBe(64);
});

it('an EOS token before minTokens does not end the request, and one that reaches minTokens does', async () => {
  const engine = new TestEngine(engineConfig());
  const forced = { forcedTokenIds: [EOS, 5, EOS, 6], ignoreEos: false, maxTokens: 9 };
  engine.add(request('early', tokens(5), { ...forced, minTokens: 3 }));
  engine.add(request('never', tokens(5, 1), { ...forced, minTokens: 0 }));
  await engine.settle();
  expect(engine.tokensOf('early')).toEqual([EOS, 5, EOS]);
  expect(engine.tokensOf('never')).toEqual([EOS]);
});

it('a row whose logits are not numbers ends its request with an error, and no other request', async () => {
  const engine: TestEngine = new TestEngine(engineConfig(), {
    executor: {
      execute: async (batch) =>
        (await engine.model.execute(batch)).map((row) =>
          row.requestId === 'broken' ? { ...row, tokenId: null } : row,
        ),
    },
  });
  engine.add(request('broken', tokens(5), { maxTokens: 3 }));
  engine.add(request('sound', tokens(5, 1), { maxTokens: 3, ignoreEos: true }));
  await engine.settle();
  expect(engine.finishOf('broken')).toMatchObject({
    reason: 'error',
    error: {
      code: 'internal',
      message: expect.stringContaining('request broken: its logits are not numbers'),
    },
  });
  expect(engine.tokensOf('broken')).toEqual([]);
  expect(engine.tokensOf('sound')).toHaveLength(3);
  expect(engine.core.hasWork()).toBe(false);
});

describe('KV that does not arrive', () => {
  const failed = async (outcome: 'refused' | 'expired' | 'dead' | 'failed') => {
    const engine = new ScriptedEngine();
    engine.add(decodeRequest('d', tokens(40)));
    await engine.step();
    engine.worker.failRecving('d', outcome, engine.blocks('d') as number[]);
    await engine.settle();
    return engine.finishOf('d')!.error;
  };

  it('ends its request with an error code that depends on the outcome', async () => {
    const lost = (outcome: string) => `the KV of request d did not arrive (${outcome}): the test says so`;
    expect(await failed('refused')).toEqual({ code: 'refused', message: 'the test says so' });
    expect(await failed('expired')).toEqual({ code: 'expired', message: lost('expired') });
    expect(await failed('dead')).toEqual({ code: 'transfer', message: lost('dead') });
    expect(await failed('failed')).toEqual({ code: 'transfer', message: lost('failed') });
  });

  it.each(['fail', 'recompute'] as const)(
    'is ignored if no request waits for it, under load failure policy %s',
    async (policy) => {
      const engine = new ScriptedEngine({}, { loadFailurePolicy: policy });
      engine.add(decodeRequest('d', tokens(40)));
      await engine.step();
      engine.worker.failRecving('nobody', 'failed', []);
      engine.receive('d');
      await engine.step();
      expect(engine.status('d')).toBe('running');
      engine.worker.failRecving('d', 'failed', []);
      await engine.settle();
      engine.worker.failRecving('d', 'failed', []);
      await engine.settle();
      expect(engine.promptOf('d')).toMatchObject({ pulledTokens: 39, computedTokens: 1 });
      expect(engine.finishOf('d')!.reason).toBe('length');
      expect(engine.outputs.filter(({ finish }) => finish)).toHaveLength(1);
    },
  );
});
