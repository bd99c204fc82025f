import { describe, expect, test } from 'vitest';
import { EngineDeadError, RequestError, TransferError } from '../../src/errors.ts';
import { createApp, MOST_BODY_BYTES } from '../../src/server/app.ts';
import type { RequestRecord } from '../../src/server/observer.ts';
import { asService, events, StubService } from './stub.ts';

type Options = Parameters<typeof createApp>[1];

function appOf(stub: StubService, options: Partial<Options> = {}) {
  return createApp(asService(stub), { version: '1', created: 1, ...options });
}

const post = (body: unknown, headers: Record<string, string> = {}): RequestInit => ({
  method: 'POST',
  headers,
  body: typeof body === 'string' ? body : JSON.stringify(body),
});

const CHAT = '/v1/chat/completions';
const hello = { model: 'nano', messages: [{ role: 'user', content: 'hello' }], max_tokens: 3 };

describe('shapes', () => {
  test('a chat completion', async () => {
    const stub = new StubService('engine');
    stub.kvTransferParams = { do_remote_decode: true, do_remote_prefill: false, remote_block_ids: [[1]] };
    const response = await appOf(stub).request(CHAT, post(hello, { 'X-Request-Id': 'r1' }));
    expect([response.status, response.headers.get('X-Request-Id')]).toEqual([200, 'r1']);
    expect(await response.json()).toEqual({
      id: 'chatcmpl-r1',
      object: 'chat.completion',
      created: expect.any(Number),
      model: 'nano',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'hel' },
          logprobs: null,
          finish_reason: 'length',
          stop_reason: null,
        },
      ],
      usage: {
        prompt_tokens: 5,
        total_tokens: 8,
        completion_tokens: 3,
        prompt_tokens_details: { cached_tokens: 3 },
      },
      kv_transfer_params: stub.kvTransferParams,
    });
  });

  test('a streamed chat: role first, the parameters in the chunk that finishes, usage only on request', async () => {
    const stub = new StubService('engine');
    const params = { do_remote_decode: true, do_remote_prefill: false, remote_block_ids: [[7]] };
    stub.kvTransferParams = params;
    const ask = { ...hello, stream: true, stream_options: { include_usage: true } };
    const response = await appOf(stub).request(CHAT, post(ask));
    expect(response.headers.get('Content-Type')).toMatch(/^text\/event-stream/);
    const chunks = (await events(response)) as unknown as {
      choices: { delta: { role?: string; content: string }; finish_reason: string | null }[];
      usage?: object;
      kv_transfer_params?: object;
    }[];
    expect(chunks[0]!.choices[0]!.delta).toEqual({ role: 'assistant', content: '' });
    expect(chunks.slice(1, -1).map((chunk) => chunk.choices[0]!.delta.content)).toEqual(['h', 'e', 'l']);
    expect(chunks.map((chunk) => chunk.kv_transfer_params)).toEqual([
      ...[undefined, undefined, undefined],
      params,
      undefined,
    ]);
    expect(chunks.at(-2)!.choices[0]!.finish_reason).toBe('length');
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 3 } });
    const stock = appOf(stub, { streamingKvParams: false });
    const without = await events(await stock.request(CHAT, post({ ...hello, stream: true })));
    expect(without.some((chunk) => 'kv_transfer_params' in chunk || 'usage' in chunk)).toBe(false);
  });

  test('completions of text, of ids and of a list of one', async () => {
    const stub = new StubService();
    const app = appOf(stub);
    const ids = [104, 105];
    for (const prompt of ['hi', ids, ['hi'], [ids]]) {
      const response = await app.request('/v1/completions', post({ prompt, max_tokens: 2 }));
      const body = (await response.json()) as { id: string; choices: object[] };
      expect(body.id).toMatch(/^cmpl-[0-9a-f]{32}$/);
      expect(body.choices).toEqual([
        { index: 0, text: 'hi', logprobs: null, finish_reason: 'length', stop_reason: null },
      ]);
    }
    expect(stub.requests.map(({ prompt }) => prompt.kind)).toEqual(['text', 'tokens', 'text', 'tokens']);
  });

  test('tokens in, tokens out', async () => {
    const stub = new StubService('engine');
    stub.kvTransferParams = { do_remote_decode: false, do_remote_prefill: true };
    const app = appOf(stub);
    const body = { request_id: 'mine', token_ids: [5, 6], sampling_params: { max_tokens: 2, logprobs: 1 } };
    const answer = await (await app.request('/inference/v1/generate', post(body))).json();
    const [choice] = (answer as { choices: { logprobs: { content: { token: string }[] } }[] }).choices;
    expect(answer).toMatchObject({
      request_id: 'mine',
      choices: [{ index: 0, finish_reason: 'length', token_ids: [5, 6] }],
      prompt_logprobs: null,
      kv_transfer_params: stub.kvTransferParams,
    });
    expect(choice!.logprobs.content.map(({ token }) => token)).toEqual(['token_id:5', 'token_id:6']);
    const chunks = await events(await app.request('/inference/v1/generate', post({ ...body, stream: true })));
    expect(chunks).toMatchObject([
      { request_id: 'mine', choices: [{ token_ids: [5], finish_reason: null }] },
      { request_id: 'mine', choices: [{ token_ids: [6], finish_reason: 'length' }] },
    ]);
  });

  test('logprobs are those of the logits, summing to one', async () => {
    const app = appOf(new StubService());
    const response = await app.request(CHAT, post({ ...hello, logprobs: true, top_logprobs: 2 }));
    const { choices } = (await response.json()) as {
      choices: {
        logprobs: {
          content: { token: string; logprob: number; bytes: number[]; top_logprobs: { token: string }[] }[];
        };
      }[];
    };
    const [first] = choices[0]!.logprobs.content;
    let sum = 0;
    for (let id = 0; id < 512; id++) sum += Math.exp(-id / 100);
    expect(first!.token).toBe('h');
    expect(first!.bytes).toEqual([104]);
    expect(first!.logprob).toBeCloseTo(-1.04 - Math.log(sum), 6);
    expect(first!.top_logprobs.map(({ token }) => token)).toEqual(['\u0000', '\u0001']);
  });

  test('what breaks lines elsewhere than in JSON is escaped, and reads back as it was', async () => {
    const stub = new StubService();
    stub.model.vocabSize = 0x3000;
    const app = appOf(stub);
    const content = '\u2028\u2029\u0085\u000b';
    const ask = { messages: [{ role: 'user', content }], max_tokens: 4, stream: true };
    const text = await (await app.request(CHAT, post(ask))).clone().text();
    expect([...content].filter((character) => text.includes(character))).toEqual([]);
    const chunks = (await events(await app.request(CHAT, post(ask)))) as never[];
    const back = chunks.map(
      (chunk: { choices: { delta: { content: string } }[] }) => chunk.choices[0]!.delta.content,
    );
    expect(back.join('')).toBe(content);
  });

  test('tokenize and detokenize', async () => {
    const app = appOf(new StubService());
    const tokenized = await app.request('/tokenize', post({ prompt: 'ab', return_token_strs: true }));
    expect(await tokenized.json()).toEqual({
      count: 2,
      max_model_len: 64,
      tokens: [97, 98],
      token_strs: ['a', 'b'],
    });
    const back = await app.request('/detokenize', post({ tokens: [97, 98] }));
    expect(await back.json()).toEqual({ prompt: 'ab' });
  });

  test('reset_prefix_cache: 200, or 409 while blocks are held; not on the router', async () => {
    const engine = new StubService('engine');
    expect((await appOf(engine).request('/reset_prefix_cache', post({}))).status).toBe(200);
    engine.resets = false;
    expect((await appOf(engine).request('/reset_prefix_cache', post({}))).status).toBe(409);
    expect((await appOf(new StubService()).request('/reset_prefix_cache', post({}))).status).toBe(404);
  });
});

describe('what a request asks for', () => {
  test('every field arrives, null is as if left out, unknown fields are ignored', async () => {
    const stub = new StubService();
    const app = appOf(stub, { defaults: { temperature: 0.7, maxTokens: 9, seed: 4 } });
    const all = {
      ...{ ...hello, max_tokens: 30, max_completion_tokens: 5, min_tokens: 2, temperature: 0.5, top_p: 0.9 },
      ...{ top_k: -1, seed: 3, stop: 'x', stop_token_ids: [7], ignore_eos: true, n: 1, cache_salt: 's' },
      ...{ conversation_id: 'c', frequency_penalty: 0, tools: [], who_knows: { a: 1 } },
    };
    expect((await app.request(CHAT, post(all))).status).toBe(200);
    expect(stub.requests[0]).toMatchObject({
      sampling: {
        ...{ maxTokens: 5, minTokens: 2, temperature: 0.5, topP: 0.9, topK: 0, seed: 3 },
        ...{ stopTokenIds: [7], ignoreEos: true, keepLogits: false },
      },
      ...{ stop: ['x'], cacheSalt: 's', conversationId: 'c' },
    });
    const nulls = { min_tokens: null, max_tokens: null, min_completion_tokens: null, stop: null, seed: null };
    expect((await app.request(CHAT, post({ ...hello, ...nulls }))).status).toBe(200);
    expect(stub.requests[1]!.sampling).toMatchObject({
      temperature: 0.7,
      maxTokens: 9,
      seed: 4,
      minTokens: 0,
    });
  });

  test('a conversation by field or header; the field wins', async () => {
    const stub = new StubService();
    const app = appOf(stub);
    await app.request(CHAT, post({ ...hello, session_id: 'a' }, { 'X-Session-ID': 'b' }));
    await app.request(CHAT, post(hello, { 'X-Session-ID': 'b' }));
    await app.request(CHAT, post(hello));
    expect(stub.requests.map(({ conversationId }) => conversationId)).toEqual(['a', 'b', null]);
  });

  test('text parts are one text, and no content is an empty one', async () => {
    const stub = new StubService();
    const messages = [
      { role: 'assistant', content: null },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
      },
    ];
    await appOf(stub).request(CHAT, post({ ...hello, messages }));
    expect(stub.requests[0]!.prompt).toEqual({
      kind: 'messages',
      messages: [
        { role: 'assistant', content: '' },
        { role: 'user', content: 'a\nb' },
      ],
    });
  });
});

describe('errors', () => {
  const bad: [object | string, string | null, RegExp][] = [
    ['{', null, /no JSON/],
    ['7', null, /the body is 7: wanted a JSON object/],
    [{ ...hello, messages: [] }, 'messages', /at least one message/],
    [{ ...hello, messages: undefined }, 'messages', /messages is missing: wanted a list of messages/],
    [{ ...hello, messages: [{ role: 'user', content: 3 }] }, 'messages.0.content', /a string, or a list/],
    [
      { ...hello, messages: [{ role: 'user', content: [{ type: 'image_url' }] }] },
      'messages.0.content.0.type',
      /other kinds of content/,
    ],
    [{ ...hello, max_tokens: 0 }, 'max_tokens', /max_tokens is 0: wanted a whole number, 1 or more/],
    [{ ...hello, max_tokens: 60 }, 'max_tokens', /60 and the prompt has 5 tokens: together at most 64/],
    [{ ...hello, min_tokens: 4 }, 'min_tokens', /more than the 3 tokens allowed/],
    [{ ...hello, temperature: -1 }, 'temperature', /0 is greedy/],
    [{ ...hello, top_p: 0 }, 'top_p', /above 0/],
    [{ ...hello, n: 2 }, 'n', /one answer a request/],
    [{ ...hello, presence_penalty: 1 }, 'presence_penalty', /not served/],
    [{ ...hello, tools: [{}] }, 'tools', /not served/],
    [{ ...hello, top_logprobs: 3 }, 'top_logprobs', /logprobs is not true/],
    [{ ...hello, stop_token_ids: [512] }, 'stop_token_ids', /vocabulary has 512/],
    [{ ...hello, stop_token_ids: Array(33).fill(1) }, 'stop_token_ids', /at most 32/],
    [
      { ...hello, messages: [{ role: 'user', content: 'x'.repeat(64) }] },
      'messages',
      /64 tokens.*context of 64/,
    ],
    [{ ...hello, messages: [{ role: 'user', content: 'x'.repeat(400) }] }, 'messages', /at least 100 tokens/],
    [{ ...hello, kv_transfer_params: 'x' }, 'kv_transfer_params', /an object/],
  ];

  test.each(bad)('%j', async (body, param, message) => {
    const response = await appOf(new StubService()).request(CHAT, post(body));
    const { error } = (await response.json()) as { error: { message: string } };
    expect(response.status).toBe(400);
    expect(error).toEqual({
      message: expect.stringMatching(message),
      type: 'BadRequestError',
      param,
      code: 400,
    });
  });

  test.each([
    [{ prompt: ['a', 'b'] }, /2 prompts: send one a request/],
    [{ prompt: [] }, /prompt/],
    [{ prompt: '' }, /no tokens/],
    [{ prompt: [600] }, /token id 600: the vocabulary has 512/],
  ])('of a completion: %j', async (body, message) => {
    const response = await appOf(new StubService()).request('/v1/completions', post(body));
    const { error } = (await response.json()) as { error: { message: string; param: string } };
    expect([response.status, error.param]).toEqual([400, 'prompt']);
    expect(error.message).toMatch(message);
  });

  test('an unknown model is a 404, another method a 405, too many bytes a 413', async () => {
    const app = appOf(new StubService());
    expect((await app.request(CHAT, post({ ...hello, model: 'gpt' }))).status).toBe(404);
    const wrongMethod = await app.request(CHAT);
    expect([wrongMethod.status, wrongMethod.headers.get('Allow')]).toEqual([405, 'POST']);
    // By what arrives, and by what is announced.
    const announced = post('{}', { 'Content-Length': String(MOST_BODY_BYTES + 1) });
    for (const large of [post(' '.repeat(MOST_BODY_BYTES + 1)), announced]) {
      const huge = await app.request(CHAT, large);
      expect(huge.status).toBe(413);
      expect(await huge.json()).toMatchObject({ error: { code: 413, type: 'RequestEntityTooLargeError' } });
    }
  });

  test('what fails before the first token has a status: 400, 500 or 503', async () => {
    for (const [error, status] of [
      [new RequestError('no'), 400],
      [new TransferError('lost'), 500],
      [new EngineDeadError('dead'), 503],
      [new Error('bug'), 500],
    ] as const) {
      const stub = new StubService();
      stub.failure = { at: 0, error };
      for (const stream of [false, true]) {
        expect((await appOf(stub).request(CHAT, post({ ...hello, stream }))).status).toBe(status);
      }
    }
  });

  test('what fails later is told in the stream, which then ends', async () => {
    const stub = new StubService();
    stub.failure = { at: 2, error: new EngineDeadError('dead') };
    const chunks = await events(await appOf(stub).request(CHAT, post({ ...hello, stream: true })));
    expect(chunks).toHaveLength(4);
    expect(chunks.at(-1)).toMatchObject({ error: { message: 'dead', code: 503 } });
  });
});

describe('who may ask', () => {
  test('with a key only its bearers, but monitors always', async () => {
    const app = appOf(new StubService(), { apiKey: 'secret' });
    const status = async (authorization?: string) => {
      const headers: Record<string, string> = authorization ? { Authorization: authorization } : {};
      return (await app.request(CHAT, post(hello, headers))).status;
    };
    expect(await status()).toBe(401);
    expect(await status('Bearer None')).toBe(401);
    expect(await status('Bearer secre')).toBe(401);
    expect(await status('Bearer secret')).toBe(200);
    expect((await app.request('/v1/models')).status).toBe(401);
    expect((await app.request('/health')).status).toBe(200);
  });

  test('pages of other origins only when they are named', async () => {
    const origin = { Origin: 'https://a.example' };
    const allowed = async (corsOrigins: string[]) => {
      const app = appOf(new StubService(), { corsOrigins });
      const response = await app.request(CHAT, post(hello, origin));
      return response.headers.get('Access-Control-Allow-Origin');
    };
    expect(await allowed([])).toBeNull();
    expect(await allowed(['https://b.example'])).toBeNull();
    expect(await allowed(['https://a.example'])).toBe('https://a.example');
  });
});

describe('how many, and until when', () => {
  test('beyond the queue: 503 with Retry-After; places come free with answers and with errors', async () => {
    const stub = new StubService();
    let go: () => void = () => {};
    stub.pace = () =>
      new Promise((resolve) => {
        go = resolve;
      });
    const records: RequestRecord[] = [];
    const observer = { token: () => {}, finished: (record: RequestRecord) => void records.push(record) };
    // Two are served at once, one may wait.
    const app = appOf(stub, { maxQueue: 1, observer });
    const open = new AbortController();
    const waiting = Array.from({ length: 3 }, () =>
      app.request(new Request(`http://h${CHAT}`, { ...post(hello), signal: open.signal })),
    );
    await expect.poll(() => stub.requests.length).toBe(3);
    const refused = await app.request(CHAT, post(hello));
    expect([refused.status, refused.headers.get('Retry-After')]).toEqual([503, '1']);
    open.abort();
    await Promise.allSettled(waiting);
    expect(stub.aborted).toBe(3);
    stub.pace = async () => go();
    for (let i = 0; i < 8; i++) {
      stub.failure = i % 2 ? { at: 1, error: new TransferError('lost') } : null;
      expect((await app.request(CHAT, post(hello))).status).toBe(i % 2 ? 500 : 200);
    }
    expect(records.map(({ reason }) => reason)).toEqual([
      ...['abort', 'abort', 'abort'],
      ...['length', 'error', 'length', 'error', 'length', 'error', 'length', 'error'],
    ]);
  });

  test('a reader that leaves a stream ends its request', async () => {
    const stub = new StubService();
    let tokens = 0;
    stub.pace = async () => {
      if (++tokens > 2) await new Promise(() => {});
    };
    const response = await appOf(stub).request(CHAT, post({ ...hello, stream: true }));
    const reader = response.body!.getReader();
    for (let i = 0; i < 3; i++) await reader.read();
    await expect.poll(() => tokens).toBe(3);
    await reader.cancel();
    await expect.poll(() => stub.aborted).toBe(1);
  });

  test('a slow reader is not read ahead of', async () => {
    const stub = new StubService();
    let tokens = 0;
    stub.pace = async () => void tokens++;
    const response = await appOf(stub).request(CHAT, post({ ...hello, max_tokens: 50, stream: true }));
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(tokens).toBeLessThan(5);
    await response.text();
    expect(tokens).toBe(50);
  });
});
