import { describe, expect, test } from 'vitest';
import { RequestError } from '../../src/errors.ts';
import { events, StubService } from './stub.ts';
import { CHAT, hello, post, stubApp } from './stub-app.ts';

describe('responses and tokenization', () => {
  test('a chat completion has usage, cached tokens and kv_transfer_params', async () => {
    const stub = new StubService('engine');
    stub.kvTransferParams = { do_remote_decode: true, do_remote_prefill: false, remote_block_ids: [[1]] };
    const response = await stubApp(stub).request(CHAT, post(hello, { 'X-Request-Id': 'r1' }));
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

  test('a streamed chat has the role first, KV parameters in the finishing chunk, usage if requested', async () => {
    const stub = new StubService('engine');
    const params = { do_remote_decode: true, do_remote_prefill: false, remote_block_ids: [[7]] };
    stub.kvTransferParams = params;
    const ask = { ...hello, stream: true, stream_options: { include_usage: true } };
    const response = await stubApp(stub).request(CHAT, post(ask));
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
    const stock = stubApp(stub, { streamingKvParams: false });
    const without = await events(await stock.request(CHAT, post({ ...hello, stream: true })));
    expect(without.some((chunk) => 'kv_transfer_params' in chunk || 'usage' in chunk)).toBe(false);
  });

  test('a completion accepts a text, token ids, or a list with one of either', async () => {
    const stub = new StubService();
    const app = stubApp(stub);
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

  test('/inference/v1/generate takes and returns token ids, whole and streamed', async () => {
    const stub = new StubService('engine');
    stub.kvTransferParams = { do_remote_decode: false, do_remote_prefill: true };
    const app = stubApp(stub);
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

  test('top_logprobs of a completion contain the chosen token too, once', async () => {
    const app = stubApp(new StubService());
    const tops = async (prompt: string | number[], logprobs: number) => {
      const response = await app.request('/v1/completions', post({ prompt, max_tokens: 1, logprobs }));
      type Told = { token_logprobs: number[]; top_logprobs: Record<string, number>[] };
      const { choices } = (await response.json()) as { choices: { logprobs: Told }[] };
      const { token_logprobs, top_logprobs } = choices[0]!.logprobs;
      return { own: token_logprobs[0], top: top_logprobs[0]! };
    };
    const unlikely = await tops('h', 2);
    expect(Object.keys(unlikely.top)).toEqual(['\u0000', '\u0001', 'h']);
    expect(unlikely.top.h).toBe(unlikely.own);
    expect(Object.keys((await tops('h', 0)).top)).toEqual(['h']);
    expect(Object.keys((await tops([1], 2)).top)).toEqual(['\u0000', '\u0001']);
  });

  test.each([false, true])('text_offset counts code points, as in vLLM (stream %s)', async (stream) => {
    const stub = new StubService();
    stub.text.decode = () => '🦊';
    const body = { prompt: 'a', max_tokens: 4, logprobs: 0, stream };
    const text = await (await stubApp(stub).request('/v1/completions', post(body))).text();
    const offsets = [...text.matchAll(/"text_offset":\[([\d,]*)\]/g)].flatMap(([, list]) => list!.split(','));
    expect(offsets).toEqual(['0', '1', '2', '3']);
  });

  test('logprobs are normalised over all logits', async () => {
    const app = stubApp(new StubService());
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

  test.each([false, true])(
    'logprobs of a character in several tokens keep its bytes (stream %s)',
    async (stream) => {
      const stub = new StubService();
      // Each token is one byte.
      stub.text.decode = (ids) => Buffer.from(ids).toString();
      stub.text.bytes = (id) => [id];
      const prompt = [...Buffer.from('aé中')];
      const body = { token_ids: prompt, prompt, messages: hello.messages, max_tokens: prompt.length };
      stub.text.encodeMessages = async () => prompt;
      const ask = async (path: string, logprobs: object) => {
        const response = await stubApp(stub).request(path, post({ ...body, ...logprobs, stream }));
        return stream ? events(response) : [await response.json()];
      };
      type Told = { choices: { logprobs: { content: object[]; tokens: string[] } | null }[] };
      const parts = (answers: unknown[]) =>
        (answers as Told[]).flatMap(({ choices }) => choices.flatMap(({ logprobs }) => logprobs ?? []));
      const chat = parts(await ask(CHAT, { logprobs: true }));
      expect(chat.flatMap(({ content }) => content)).toMatchObject([
        { token: 'a', bytes: [0x61] },
        { token: '', bytes: [0xc3] },
        { token: 'é', bytes: [0xa9] },
        { token: '', bytes: [0xe4] },
        { token: '', bytes: [0xb8] },
        { token: '中', bytes: [0xad] },
      ]);
      const completion = parts(await ask('/v1/completions', { logprobs: 0 }));
      expect(completion.flatMap(({ tokens }) => tokens)).toEqual(['a', '', 'é', '', '', '中']);
    },
  );

  test('a stream escapes line separators outside ASCII, and they parse back unchanged', async () => {
    const stub = new StubService();
    stub.model.vocabSize = 0x3000;
    const app = stubApp(stub);
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

  test('add_generation_prompt and continue_final_message decide how a prompt ends, also in /tokenize', async () => {
    const app = stubApp(new StubService());
    const continued = { add_generation_prompt: false, continue_final_message: true };
    for (const [fields, last] of [
      [{}, 'o'],
      [{ add_generation_prompt: false }, '.'],
      [continued, '-'],
    ] as const) {
      const asked = { ...hello, ...fields, return_token_ids: true };
      const answer = (await (await app.request(CHAT, post(asked))).json()) as { prompt_token_ids: number[] };
      expect(String.fromCodePoint(answer.prompt_token_ids.at(-1)!)).toBe(last);
      const { messages } = hello;
      const tokenized = await app.request('/tokenize', post({ messages, ...fields }));
      expect(await tokenized.json()).toMatchObject({ tokens: answer.prompt_token_ids });
    }
    for (const fields of [
      { continue_final_message: true },
      { continue_final_message: true, add_generation_prompt: true },
    ]) {
      const both = await app.request(CHAT, post({ ...hello, ...fields }));
      expect(both.status).toBe(400);
      expect(await both.json()).toMatchObject({ error: { param: 'continue_final_message' } });
    }
  });

  test('special tokens are added to a text unless add_special_tokens is false, never to messages', async () => {
    const stub = new StubService();
    stub.text.withSpecialTokens = (ids) => [9, ...ids];
    const app = stubApp(stub);
    const ask = async (path: string, body: object) => (await app.request(path, post(body))).status;
    const prompt = { prompt: 'ab', max_tokens: 1 };
    const off = { add_special_tokens: false };
    const on = { add_special_tokens: true };
    for (const body of [prompt, { ...prompt, ...off }]) expect(await ask('/v1/completions', body)).toBe(200);
    for (const body of [hello, { ...hello, ...off }]) expect(await ask(CHAT, body)).toBe(200);
    expect(stub.requests.map(({ addSpecialTokens }) => addSpecialTokens)).toEqual([
      true,
      false,
      false,
      false,
    ]);
    const tokens = async (body: object) => (await app.request('/tokenize', post(body))).json();
    expect(await tokens({ prompt: 'ab' })).toMatchObject({ count: 3, tokens: [9, 97, 98] });
    expect(await tokens({ prompt: 'ab', ...off })).toMatchObject({ tokens: [97, 98] });
    const { messages } = hello;
    expect(await tokens({ messages })).toMatchObject({ count: 5 });
    expect(await ask('/tokenize', { messages, ...on })).toBe(400);
    const refused = await app.request(CHAT, post({ ...hello, ...on }));
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({
      error: { param: 'add_special_tokens', message: expect.stringContaining('wanted false') },
    });
  });

  test('/tokenize names messages if the chat template rejects them', async () => {
    const stub = new StubService();
    stub.text.encodeMessages = async () => {
      throw new RequestError("the model's chat template rejects the messages");
    };
    const response = await stubApp(stub).request('/tokenize', post({ messages: hello.messages }));
    expect([response.status, await response.json()]).toMatchObject([400, { error: { param: 'messages' } }]);
  });

  test('/detokenize refuses ids outside the vocabulary', async () => {
    const response = await stubApp(new StubService()).request('/detokenize', post({ tokens: [97, 99_999] }));
    expect([response.status, await response.json()]).toMatchObject([400, { error: { param: 'tokens' } }]);
  });

  test('/tokenize and /detokenize convert a text to token ids and back', async () => {
    const app = stubApp(new StubService());
    const tokenized = await app.request('/tokenize', post({ prompt: 'ab', return_token_strs: true }));
    expect(await tokenized.json()).toEqual({
      count: 2,
      max_model_len: 64,
      tokens: [97, 98],
      token_strs: ['Ġa', 'Ġb'],
    });
    const back = await app.request('/detokenize', post({ tokens: [97, 98] }));
    expect(await back.json()).toEqual({ prompt: 'ab' });
  });
});

describe('the fields of a request', () => {
  test('reach the service; null counts as omitted, and unknown ones are ignored', async () => {
    const stub = new StubService();
    const app = stubApp(stub, { defaults: { temperature: 0.7, maxTokens: 9, seed: 4 } });
    const all = {
      ...hello,
      max_tokens: 30,
      max_completion_tokens: 5,
      min_tokens: 2,
      temperature: 0.5,
      top_p: 0.9,
      top_k: -1,
      seed: 3,
      stop: 'x',
      stop_token_ids: Array(1024).fill(7),
      ignore_eos: true,
      n: 1,
      cache_salt: 's'.repeat(1024),
      conversation_id: 'c',
      frequency_penalty: 0,
      tools: [],
      who_knows: { a: 1 },
    };
    expect((await app.request(CHAT, post(all))).status).toBe(200);
    expect(stub.requests[0]).toMatchObject({
      sampling: {
        maxTokens: 5,
        minTokens: 2,
        temperature: 0.5,
        topP: 0.9,
        topK: 0,
        seed: 3,
        stopTokenIds: Array(1024).fill(7),
        ignoreEos: true,
        keepLogits: false,
      },
      stop: ['x'],
      cacheSalt: 's'.repeat(1024),
      conversationId: 'c',
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

  test('name a conversation, as a header does, and win over the header', async () => {
    const stub = new StubService();
    const app = stubApp(stub);
    await app.request(CHAT, post({ ...hello, session_id: 'a' }, { 'X-Session-ID': 'b' }));
    await app.request(CHAT, post(hello, { 'X-Session-ID': 'b' }));
    await app.request(CHAT, post(hello));
    expect(stub.requests.map(({ conversationId }) => conversationId)).toEqual(['a', 'b', null]);
  });

  test('are refused with 400 if they or headers name a conversation with a reserved name', async () => {
    const stub = new StubService();
    const app = stubApp(stub);
    const name = 'anonymous-1';
    const asked: [object, Record<string, string>, string][] = [
      [{ ...hello, conversation_id: name }, {}, 'conversation_id'],
      [{ ...hello, session_id: name }, {}, 'session_id'],
      [hello, { 'X-Conversation-Id': name }, 'X-Conversation-Id'],
      [hello, { 'X-Session-Id': name }, 'X-Session-Id'],
    ];
    for (const [body, headers, param] of asked) {
      const response = await app.request(CHAT, post(body, headers));
      const message = expect.stringContaining(`${param} is`);
      expect([response.status, await response.json()]).toMatchObject([400, { error: { param, message } }]);
    }
    expect(stub.requests).toEqual([]);
    const others = { request_id: name, conversation_id: 'anonymous-me' };
    expect((await app.request(CHAT, post({ ...hello, ...others }))).status).toBe(200);
  });

  test('may have any 64-bit integer as seed', async () => {
    const stub = new StubService();
    const app = stubApp(stub);
    for (const seed of ['9223372036854775807', '-9007199254740994', '9007199254740994', '-5'])
      await app.request(CHAT, {
        ...post({}),
        body: JSON.stringify({ ...hello, seed: 0 }).replace('"seed":0', `"seed":${seed}`),
      });
    expect(stub.requests.map(({ sampling }) => sampling.seed)).toEqual([0, -2, 2, -5]);
    const refused = await app.request(CHAT, post({ ...hello, seed: 1e20 }));
    expect(refused.status).toBe(400);
    expect(await refused.text()).toContain('wanted a whole number of 64 bits');
  });

  test('may have text parts, which become one text, and null content, which becomes empty text', async () => {
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
    await stubApp(stub).request(CHAT, post({ ...hello, messages }));
    expect(stub.requests[0]!.prompt).toEqual({
      kind: 'messages',
      end: 'generation_prompt',
      messages: [
        { role: 'assistant', content: '' },
        { role: 'user', content: 'a\nb' },
      ],
    });
  });
});
