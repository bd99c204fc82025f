import { describe, expect, it } from 'vitest';
import { InternalError, RequestError } from '../../src/errors.ts';
import { alone, EOS, engineConfig, request, TestEngine, tokens } from './fakes.ts';

describe('a forced answer', () => {
  it('is generated whatever the model samples, and its KV is computed and cached like any other', async () => {
    const engine = new TestEngine(engineConfig({}));
    const forcedTokenIds = tokens(40, 9);
    engine.add(request('a', tokens(10), { maxTokens: 40, ignoreEos: true, forcedTokenIds }));
    await engine.settle();
    expect(engine.tokensOf('a')).toEqual(forcedTokenIds);
    engine.add(request('b', [...tokens(10), ...forcedTokenIds], { maxTokens: 1 }));
    await engine.settle();
    expect(engine.promptOf('b')).toMatchObject({ localHitTokens: 48, computedTokens: 2 });
  });

  it('with an invalid token id is refused', () => {
    const engine = new TestEngine(engineConfig({}));
    expect(() => engine.add(request('a', tokens(10), { forcedTokenIds: [1, -1] }))).toThrow(
      'forcedTokenIds holds -1, which is not a token id',
    );
  });
});

describe('batching', () => {
  it('splits a prompt into chunks of the token budget, and samples only after the last', async () => {
    const engine = new TestEngine(engineConfig({ maxNumBatchedTokens: 20 }));
    engine.add(request('a', tokens(50), { maxTokens: 2 }));
    await engine.settle();
    const rows = engine.model.batches.map((batch) => batch.requests[0]!);
    expect(rows.map((row) => [row.startPosition, row.tokenIds.length, row.sample?.outputIndex])).toEqual([
      [0, 20, undefined],
      [20, 20, undefined],
      [40, 10, 0],
      [50, 1, 1],
    ]);
    expect(engine.promptOf('a')).toMatchObject({ computedTokens: 50 });
  });

  it('computes the end of a streamed prompt in a small step that starts at a block boundary', async () => {
    const engine = new TestEngine(engineConfig({ maxNumBatchedTokens: 128 }));
    const stepsOf = (id: string) =>
      engine.model.batches
        .flatMap(({ requests }) => requests.filter(({ requestId }) => requestId === id))
        .map(({ tokenIds }) => tokenIds.length);
    const streamed = { do_remote_decode: true, do_remote_prefill: false, streamed: true };
    for (const [id, length] of Object.entries({ a: 256, b: 250, c: 129, d: 32, e: 33 })) {
      engine.add({ ...request(id, tokens(length, length), { maxTokens: 1 }), kvTransferParams: streamed });
      await engine.settle();
    }
    engine.add({
      ...request('pulled', tokens(256), { maxTokens: 1 }),
      kvTransferParams: { ...streamed, streamed: false },
    });
    await engine.settle();
    expect(['a', 'b', 'c', 'd', 'e', 'pulled'].map(stepsOf)).toEqual([
      [128, 96, 32],
      [128, 96, 26],
      [112, 17],
      [32],
      [16, 17],
      [128, 128],
    ]);
  });

  it('schedules decodes first and gives the rest of the token budget to prompts', async () => {
    const engine = new TestEngine(engineConfig({ maxNumBatchedTokens: 20 }));
    engine.add(request('a', tokens(10, 1), { maxTokens: 4 }));
    await engine.step();
    engine.add(request('b', tokens(30, 2), { maxTokens: 1 }));
    await engine.settle();
    expect(engine.scheduledIn(1)).toEqual({ a: 1, b: 19 });
    expect(engine.scheduledIn(2)).toEqual({ a: 1, b: 11 });
  });

  it('runs at most maxNumSeqs requests, first come first served', async () => {
    const engine = new TestEngine(engineConfig({ maxNumSeqs: 2 }));
    for (const id of ['a', 'b', 'c']) engine.add(request(id, tokens(10), { maxTokens: 3 }));
    await engine.step();
    expect(Object.keys(engine.scheduledIn(0))).toEqual(['a', 'b']);
    expect(engine.core.inspect.waitingReason('c')).toBe('waits for one of 2 request slots (max_num_seqs)');
    await engine.settle();
    expect(engine.finishOf('c')?.reason).toBe('length');
  });

  it('gives the same tokens however a request is batched and chunked', async () => {
    const runs = [4, 7, 64, 512].map(async (maxNumBatchedTokens) => {
      const engine = new TestEngine(engineConfig({ maxNumBatchedTokens, maxNumSeqs: 3 }));
      for (const seed of [1, 2, 3, 4]) engine.add(request(`r${seed}`, tokens(33, seed), { seed }));
      await engine.settle();
      return [1, 2, 3, 4].map((seed) => engine.tokensOf(`r${seed}`));
    });
    const [first, ...others] = await Promise.all(runs);
    for (const other of others) expect(other).toEqual(first);
    expect(first!.every((ids) => ids.length === 16)).toBe(true);
  });
});

async function run(script: number[], sampling: Parameters<typeof request>[2], maxModelLen = 1024) {
  const engine = new TestEngine(engineConfig({ maxModelLen }));
  engine.model.scripts.set('a', script);
  engine.add(request('a', tokens(8), sampling));
  await engine.settle();
  expect(engine.core.inspect.stats().usedBlocks).toBe(0);
  return { reason: engine.finishOf('a')?.reason, tokens: engine.tokensOf('a'), engine };
}

describe('generation', () => {
  it('stops at the EOS token, which is part of the output', async () => {
    const { reason, tokens } = await run([5, EOS, 6], { ignoreEos: false });
    expect({ reason, tokens }).toEqual({ reason: 'stop', tokens: [5, EOS] });
  });

  it('continues past the EOS token with ignoreEos', async () => {
    const { reason, tokens } = await run([5, EOS, 6], { ignoreEos: true, maxTokens: 3 });
    expect({ reason, tokens }).toEqual({ reason: 'length', tokens: [5, EOS, 6] });
  });

  it('stops at a stop token, even with ignoreEos', async () => {
    const { reason, tokens } = await run([5, 9, 6], { stopTokenIds: [9] });
    expect({ reason, tokens }).toEqual({ reason: 'stop', tokens: [5, 9] });
  });

  it('stops at maxTokens', async () => {
    const { reason, tokens } = await run([5, 6, 7, 8], { maxTokens: 3 });
    expect({ reason, tokens }).toEqual({ reason: 'length', tokens: [5, 6, 7] });
  });

  it('stops when prompt and output fill maxModelLen', async () => {
    const { reason, tokens } = await run([5, 6, 7, 8], { maxTokens: 100 }, 11);
    expect({ reason, tokens }).toEqual({ reason: 'length', tokens: [5, 6, 7] });
  });

  it('forbids EOS and stop tokens until minTokens tokens exist', async () => {
    const { reason, tokens, engine } = await run([5, 6, EOS], {
      ignoreEos: false,
      minTokens: 2,
      stopTokenIds: [9],
    });
    expect({ reason, tokens }).toEqual({ reason: 'stop', tokens: [5, 6, EOS] });
    const forbidden = engine.model.batches.map((batch) => batch.requests[0]!.sample!.forbiddenTokenIds);
    expect(forbidden).toEqual([[EOS, 9], [EOS, 9], []]);
  });
});

describe('bad words', () => {
  it('are never completed: the last token is forbidden if the output ends with those before it', async () => {
    const badWordsTokenIds = [[7], [5, 6, 8], [3, 9]];
    const { engine } = await run([5, 6, 5, 6, 3, 4], { badWordsTokenIds, maxTokens: 6 });
    const forbidden = engine.model.batches.map((batch) => batch.requests[0]!.sample!.forbiddenTokenIds);
    expect(forbidden).toEqual([[7], [7], [7, 8], [7], [7, 8], [7, 9]]);
  });

  it('are matched within the output only, not from the prompt on', async () => {
    const word = [...tokens(8).slice(-1), 5];
    const { engine } = await run([5, 6], { badWordsTokenIds: [word], maxTokens: 2 });
    const forbidden = engine.model.batches.map((batch) => batch.requests[0]!.sample!.forbiddenTokenIds);
    expect(forbidden).toEqual([[], []]);
  });

  it('that are empty are refused, and so is an empty list of allowed tokens', async () => {
    await expect(run([5], { allowedTokenIds: [] })).rejects.toThrow('allow at least one token');
    await expect(run([5], { badWordsTokenIds: [[]] })).rejects.toThrow('remove it');
  });
});

describe('preemption', () => {
  it('takes all blocks of the last admitted request, and does not change any tokens', async () => {
    const roomy = new TestEngine(engineConfig({ blockSize: 4, numBlocks: 100 }));
    const tight = new TestEngine(engineConfig({ blockSize: 4, numBlocks: 9 }));
    for (const engine of [roomy, tight]) {
      engine.add(request('a', tokens(12, 1), { maxTokens: 16 }));
      engine.add(request('b', tokens(12, 2), { maxTokens: 16 }));
      await engine.settle();
    }
    expect(tight.core.inspect.stats().preemptions).toBeGreaterThan(0);
    expect(tight.finishOf('a')?.numPreemptions).toBe(0);
    expect(tight.finishOf('b')?.numPreemptions).toBeGreaterThan(0);
    for (const id of ['a', 'b']) expect(tight.tokensOf(id)).toEqual(roomy.tokensOf(id));
    // The account is that of the prefill that sampled the first token, and the cache counts a request once.
    expect(tight.promptOf('b')).toMatchObject({ localHitTokens: 0, pulledTokens: 0, computedTokens: 12 });
    expect(tight.core.inspect.stats().prefixCache.queries).toBe(24);
    expect(tight.core.inspect.stats().usedBlocks).toBe(0);
  });

  it('puts the preempted request before those that came later', async () => {
    const engine = new TestEngine(engineConfig({ blockSize: 4, numBlocks: 8 }));
    engine.add(request('a', tokens(12, 1), { maxTokens: 12 }));
    engine.add(request('b', tokens(12, 2), { maxTokens: 4 }));
    engine.add(request('c', tokens(8, 3), { maxTokens: 1 }));
    await engine.settle();
    expect(engine.finishOf('b')!.numPreemptions).toBeGreaterThan(0);
    const rows = engine.model.batches.flatMap((batch) => batch.requests);
    const secondStart = rows.findLastIndex((row) => row.requestId === 'b' && row.tokenIds.length > 1);
    const cStart = rows.findIndex((row) => row.requestId === 'c');
    expect(secondStart).toBeGreaterThan(0);
    expect(secondStart).toBeLessThan(cStart);
  });

  it('is avoided by not admitting a request whose whole prompt does not fit next to running ones', async () => {
    // Eight usable blocks, five of them for a's prompt: b's first chunk would fit, but not its four blocks.
    const engine = new TestEngine(engineConfig({ blockSize: 4, numBlocks: 9, maxNumBatchedTokens: 6 }));
    engine.add(request('a', tokens(20, 1), { maxTokens: 8 }));
    engine.add(request('b', tokens(16, 2), { maxTokens: 1 }));
    for (let step = 0; step < 6; step++) await engine.step();
    expect(engine.core.inspect.stats()).toMatchObject({ running: 1, waiting: 1, heldRequests: 0 });
    expect(engine.core.inspect.waitingReason('b')).toBe(
      'waits for 4 blocks, 2 of 8 are free: other requests have them',
    );
    await engine.settle();
    expect(engine.core.inspect.stats().preemptions).toBe(0);
    expect(engine.finishOf('b')?.reason).toBe('length');
  });
});

describe('a streamed prompt whose step leaves token budget', () => {
  it('keeps the blocks that the rest of it needs from the requests behind it', async () => {
    // Of 256 tokens, 16 blocks, the second step computes 96. Three of 17 blocks are free then, two of them for the third step.
    const engine = new TestEngine(engineConfig({ numBlocks: 18, maxNumBatchedTokens: 128 }));
    const streamed = { do_remote_decode: true, do_remote_prefill: false, streamed: true };
    engine.add(request('a', tokens(256), { maxTokens: 1 }, { kvTransferParams: streamed }));
    engine.add(request('b', tokens(32, 1), { maxTokens: 1 }));
    await engine.settle();
    expect([0, 1, 2, 3].map((batch) => engine.scheduledIn(batch))).toEqual([
      { a: 128 },
      { a: 96 },
      { a: 32 },
      { b: 32 },
    ]);
  });
});

describe('adding a request', () => {
  const engine = () => new TestEngine(engineConfig({ numBlocks: 5, maxModelLen: 100 }));
  const refused = (text: RegExp, ...args: Parameters<typeof request>) => {
    const fresh = engine();
    expect(() => fresh.add(request(...args))).toThrow(RequestError);
    expect(() => fresh.add(request(...args))).toThrow(text);
    expect(fresh.core.hasWork()).toBe(false);
  };

  it('refuses an empty prompt', () => refused(/prompt is empty/, 'a', []));
  it('refuses a prompt with a negative token id', () =>
    refused(/holds -1, which is not a token id/, 'a', [1, -1]));
  it.each([
    [/the prompt holds 97, which is not a token id of a vocabulary of 97/, [1, 97], {}],
    [/forcedTokenIds holds 97, which is not a token id of/, [1], { forcedTokenIds: [3, 97] }],
    [/allowedTokenIds holds 2000, which is not a token id of/, [1], { allowedTokenIds: [3, 2000] }],
    [/allowedTokenIds holds -1, which is not a token id of/, [1], { allowedTokenIds: [-1] }],
  ])('refuses token ids outside the vocabulary: %s', (text, prompt, sampling) => {
    const fresh = new TestEngine({ ...engineConfig({}), vocabSize: 97 });
    const add = () => fresh.add(request('a', prompt, sampling));
    expect(add).toThrow(RequestError);
    expect(add).toThrow(text);
    expect(fresh.core.hasWork()).toBe(false);
    fresh.add(request('b', [0, 96], { forcedTokenIds: [96], allowedTokenIds: [0, 96], maxTokens: 1 }));
  });
  it('refuses a maxTokens of 0', () => refused(/maxTokens is 0/, 'a', [1], { maxTokens: 0 }));
  it('refuses minTokens over maxTokens', () =>
    refused(/minTokens 5 is more than maxTokens 2/, 'a', [1], { minTokens: 5, maxTokens: 2 }));
  it('refuses a prompt that leaves no room in the context', () =>
    refused(/prompt has 100 tokens, and the context of 100/, 'a', tokens(100)));
  it('refuses a request that the pool can never hold', () =>
    refused(
      /50 prompt tokens and up to 20 more need 5 blocks of 16 tokens, the pool of engine has 4: give it 6 blocks/,
      'a',
      tokens(50),
      {
        maxTokens: 20,
      },
    ));

  it('accepts a request that exactly fits, since its last token needs no KV', async () => {
    const e = engine();
    e.add(request('a', tokens(50), { maxTokens: 15 }));
    await e.settle();
    expect(e.tokensOf('a')).toHaveLength(15);
  });

  it('refuses an id that is in use, and accepts it again once that request has ended', async () => {
    const e = engine();
    e.add(request('a', tokens(3)));
    expect(() => e.core.addRequest(request('a', tokens(4)))).toThrow(/has not ended: choose another id/);
    await e.settle();
    e.add(request('a', tokens(4)));
    await e.settle();
    expect(e.core.hasWork()).toBe(false);
  });
});

describe('abort', () => {
  it('ends a waiting or running request with the next step, and frees its blocks at once', async () => {
    const engine = new TestEngine(engineConfig({ maxNumSeqs: 1 }));
    engine.add(request('a', tokens(20)));
    engine.add(request('b', tokens(20)));
    await engine.step();
    engine.core.abortRequest('a');
    engine.core.abortRequest('b');
    engine.core.abortRequest('b');
    engine.core.abortRequest('nobody');
    expect(engine.core.inspect.stats()).toMatchObject({ usedBlocks: 0, running: 0, waiting: 0 });
    expect(engine.core.poll()).toBe(true);
    const outputs = await engine.step();
    expect(outputs.map((output) => [output.requestId, output.finish?.reason, output.tokens])).toEqual([
      ['a', 'abort', []],
      ['b', 'abort', []],
    ]);
    expect(engine.core.hasWork()).toBe(false);
  });

  it('during a batch discards what the batch returns for the aborted request', async () => {
    const engine = new TestEngine(engineConfig());
    engine.add(request('a', tokens(20)));
    engine.add(request('b', tokens(20, 1), { maxTokens: 1 }));
    engine.model.duringBatch = () => engine.core.abortRequest('a');
    const outputs = await engine.step();
    expect(outputs.map((output) => [output.requestId, output.finish?.reason])).toEqual([
      ['b', 'length'],
      ['a', 'abort'],
    ]);
    // The batch returned a row for each of the two.
    expect(engine.tokensOf('b')).toEqual(await alone(tokens(20, 1), { maxTokens: 1 }));
    expect(engine.core.hasWork()).toBe(false);
  });
});

describe('an engine', () => {
  it('has no work before a request is added', () => {
    const engine = new TestEngine(engineConfig());
    expect(engine.core.poll()).toBe(false);
    expect(engine.core.hasWork()).toBe(false);
  });

  it('rejects a step if the executor returns no token for a request that samples', async () => {
    const engine = new TestEngine(engineConfig(), { executor: { execute: async () => [] } });
    engine.add(request('a', tokens(3)));
    await expect(engine.core.step()).rejects.toThrow(InternalError);
  });

  it('does not begin a step before the previous one has ended', async () => {
    const engine = new TestEngine(engineConfig());
    engine.add(request('a', tokens(3)));
    const first = engine.core.step();
    await expect(engine.core.step()).rejects.toThrow(/before the last one ended/);
    await first;
  });

  it('waits for changes until the signal aborts if it has no connector', async () => {
    const engine = new TestEngine(engineConfig());
    const stop = new AbortController();
    let over = false;
    const waiting = engine.core.waitForChange(stop.signal).then(() => {
      over = true;
    });
    await Promise.resolve();
    expect(over).toBe(false);
    stop.abort();
    await waiting;
  });

  it('counts prompt tokens exactly if a prompt is preempted halfway', async () => {
    const engine = new TestEngine(engineConfig({ blockSize: 4, numBlocks: 10, maxNumBatchedTokens: 4 }));
    for (const seed of [1, 2, 3]) engine.add(request(`b${seed}`, tokens(4, seed), { maxTokens: 9 }));
    engine.add(request('c', tokens(12, 4), { maxTokens: 2 }));
    await engine.settle();
    const starts = engine.model.batches.flatMap((batch) =>
      batch.requests.filter((row) => row.requestId === 'c').map((row) => row.startPosition),
    );
    const restarts = starts.filter((start, i) => i > 0 && start <= starts[i - 1]!);
    expect(restarts.length).toBeGreaterThan(0);
    const { promptTokens, localHitTokens, pulledTokens, computedTokens } = engine.promptOf('c')!;
    expect(promptTokens).toBe(12);
    expect(localHitTokens + pulledTokens + computedTokens).toBe(12);
    // Only the tokens of the prefill that sampled the first token, which began at the last restart.
    expect(localHitTokens).toBe(restarts.at(-1));
  });
});
