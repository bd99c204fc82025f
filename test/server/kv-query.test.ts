/** POST /kv/query: the answer is what the next request hits. */
import { describe, expect, it, vi } from 'vitest';
import { mountKvQuery } from '../../src/server/kv/kv-query.ts';
import { engineConfig, request, TestEngine, tokens } from '../engine/fakes.ts';
import { appOf, engineService, post, routerService, text } from './ports.ts';

interface Answer {
  prompt_tokens: number;
  engines: { role: string; hit_tokens: number; block_hashes: string[]; held: unknown[] }[];
  unanswered: string[];
  error: { message: string };
}

async function enginePort() {
  const engine = new TestEngine(engineConfig());
  const service = engineService(() => engine.core);
  return { engine, service, app: appOf(service, (app) => mountKvQuery(app, service)) };
}

describe("POST /kv/query on an engine's port", () => {
  it('reports cached tokens and changes nothing; the next request hits exactly those', async () => {
    const { engine, app } = await enginePort();
    engine.add(request('a', tokens(50), { maxTokens: 1 }));
    await engine.settle();
    const before = engine.core.inspect.stats();
    const batches = engine.model.batches.length;
    const response = await post(app, '/kv/query', { token_ids: tokens(50) });
    expect(response.status).toBe(200);
    const { prompt_tokens, engines } = (await response.json()) as Answer;
    expect(prompt_tokens).toBe(50);
    expect(engines).toHaveLength(1);
    expect(engines[0]).toMatchObject({ engine_id: 'prefill-0', role: 'prefill', block_size: 16, held: [] });
    expect(engines[0]).toMatchObject({ cached_tokens: 48, hit_tokens: 48 });
    expect(engines[0]!.block_hashes).toHaveLength(3);
    expect(engine.core.inspect.stats()).toEqual(before);
    expect(engine.model.batches).toHaveLength(batches);
    engine.add(request('b', tokens(50), { maxTokens: 1 }));
    await engine.step();
    expect(engine.promptOf('b')).toMatchObject({ localHitTokens: engines[0]!.hit_tokens });
  });

  it('accepts messages, text and token ids', async () => {
    const { engine, app } = await enginePort();
    const ids = await text.encode('user:a question of some length;', new AbortController().signal);
    engine.add(
      request(
        'a',
        ids.map((id) => id % 97),
        { maxTokens: 1 },
      ),
    );
    await engine.settle();
    const messages = [{ role: 'user', content: 'a question of some length' }];
    const bodies = [
      { messages },
      { prompt: 'user:a question of some length;' },
      { prompt: ids },
      { token_ids: ids, unknown_field: 1 },
    ];
    for (const body of bodies) {
      const answer = (await (await post(app, '/kv/query', body)).json()) as Answer;
      expect(answer.prompt_tokens).toBe(31);
    }
  });

  it.each([
    ['no json', /not JSON/, null],
    [{}, /none is given: wanted exactly one of messages, prompt and token_ids/, 'messages'],
    [{ prompt: 'a', token_ids: [1] }, /prompt and token_ids are given/, 'prompt'],
    [{ token_ids: [1, -2] }, /token_ids\.1/, 'token_ids.1'],
    [{ messages: [{ content: 'x' }] }, /messages\.0\.role/, 'messages.0.role'],
    [
      { messages: [{ role: 'user', content: 'x' }], add_special_tokens: true },
      /wanted false for messages/,
      'add_special_tokens',
    ],
    [{ messages: 'hello' }, /messages is "hello": wanted a list of messages/, 'messages'],
    ['[1]', /wanted a JSON object/, null],
    [{ messages: [{ role: 'assistant', content: 'so' }] }, /ends with the assistant/, 'messages'],
  ])('refuses %j', async (body, message, param) => {
    const { app } = await enginePort();
    const response = await post(app, '/kv/query', body);
    expect(response.status).toBe(400);
    const { error } = (await response.json()) as Answer;
    expect(error).toMatchObject({ type: 'BadRequestError', param, code: 400 });
    expect(error.message).toMatch(message);
  });

  it("answers 503 after a second if the engine's thread is stuck, and asks it once", async () => {
    const { app, engine, service } = await enginePort();
    const lookup = vi.spyOn(service.engine().inspection, 'lookup').mockReturnValue(new Promise(() => {}));
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      for (let i = 0; i < 2; i++) {
        const asked = post(app, '/kv/query', { token_ids: tokens(50) });
        await vi.advanceTimersByTimeAsync(1000);
        const response = await asked;
        expect(response.status).toBe(503);
        const { error } = (await response.json()) as Answer;
        expect(error.message).toBe('engine prefill-0 does not answer: retry, or use another engine');
      }
    } finally {
      vi.useRealTimers();
    }
    expect(lookup).toHaveBeenCalledTimes(1);
    expect(engine.core.hasWork()).toBe(false);
  });

  it('answers 503 if the engine is dead', async () => {
    const service = engineService(() => null);
    const app = appOf(service, (hono) => mountKvQuery(hono, service));
    expect((await post(app, '/kv/query', { token_ids: [1] })).status).toBe(503);
  });
});

it("POST /kv/query on the router's port asks all engines, for the conversation if it is named", async () => {
  const asked: unknown[] = [];
  const lookup = { blockSize: 16, cachedTokens: 0, hitTokens: 0, blockIds: [[]], blockHashes: [] };
  const held = [
    { requestId: 'r', direction: 'decode' as const, numTokens: 20, blockIds: [[7, 8]], deadlineMs: 5500 },
  ];
  const service = routerService({
    queryCache: async ({ encode, ...query }) => {
      asked.push(query);
      const engines = [
        { engineId: 'prefill-0', role: 'prefill' as const, combined: false, ...lookup, held: [] },
        { engineId: 'decode-0', role: 'decode' as const, combined: false, ...lookup, held },
        { engineId: 'both-0', role: 'decode' as const, combined: true, ...lookup, held: [] },
      ];
      return { promptTokens: 21, engines, unanswered: ['decode-1'] };
    },
  });
  const app = appOf(service, (hono) => mountKvQuery(hono, service));
  const messages = [{ role: 'user', content: 'hello' }];
  const response = await post(app, '/kv/query', { messages, conversation_id: 'c', cache_salt: 's' });
  const { engines, unanswered } = (await response.json()) as Answer;
  expect(unanswered).toEqual(['decode-1']);
  expect(engines.map(({ role }) => role)).toEqual(['prefill', 'decode', 'both']);
  expect(engines[1]!.held).toEqual([
    { request_id: 'r', direction: 'decode', num_tokens: 20, block_ids: [[7, 8]], expires_at: 5.5 },
  ]);
  await post(app, '/kv/query', { messages });
  await post(app, '/kv/query', { prompt: 'once', session_id: 'd' });
  const promptEnd = 'generation_prompt';
  const plain = { addSpecialTokens: false };
  expect(asked).toEqual([
    { messages, promptEnd, conversationId: 'c', cacheSalt: 's', findConversation: true, ...plain },
    { messages, promptEnd, conversationId: null, cacheSalt: null, findConversation: true, ...plain },
    {
      ...{ promptText: 'once', conversationId: 'd', cacheSalt: null },
      ...{ findConversation: true, addSpecialTokens: true },
    },
  ]);
});
