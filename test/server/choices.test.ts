/** Several choices for one request: a list of prompts, n per prompt, or both; whole and streamed. */
import { describe, expect, test } from 'vitest';
import { events, StubService } from './stub.ts';
import { CHAT, hello, post, stubApp } from './stub-app.ts';

interface Chunk {
  choices: {
    index: number;
    text?: string;
    delta?: { role?: string; content: string };
    finish_reason: string | null;
    token_ids?: number[];
    prompt_token_ids?: number[];
  }[];
  prompt_token_ids?: number[];
  usage?: { prompt_tokens: number; completion_tokens: number; total_tokens: number };
}

const COMPLETION = '/v1/completions';
const warm = { temperature: 1, seed: 40 };

async function whole(stub: StubService, path: string, body: object): Promise<Chunk> {
  const response = await stubApp(stub).request(path, post(body));
  expect(response.status).toBe(200);
  return (await response.json()) as Chunk;
}

async function chunks(stub: StubService, path: string, body: object): Promise<Chunk[]> {
  const response = await stubApp(stub).request(path, post({ ...body, stream: true }));
  expect(response.status).toBe(200);
  return (await events(response)) as unknown as Chunk[];
}

describe('a generation request', () => {
  test.each([
    [['ab', 'cd']],
    [[[...'ab'], [...'cd']].map((texts) => texts.map((text) => text.charCodeAt(0)))],
  ])('gets one choice per prompt for %j', async (prompt) => {
    const stub = new StubService();
    const { choices, usage } = await whole(stub, COMPLETION, { prompt, max_tokens: 3 });
    expect(choices.map(({ index, text }) => [index, text])).toEqual([
      [0, 'aba'],
      [1, 'cdc'],
    ]);
    expect(usage).toMatchObject({ prompt_tokens: 4, completion_tokens: 6, total_tokens: 10 });
    expect(stub.requests.map(({ sampling }) => sampling.seed)).toEqual([0, 0]);
  });

  test('gets n choices per prompt, with a seed each, and counts each prompt once', async () => {
    const stub = new StubService();
    const body = { prompt: ['ab', 'cd'], n: 2, max_tokens: 2, ...warm };
    const { choices, usage } = await whole(stub, COMPLETION, body);
    expect(choices.map(({ index, text }) => [index, text])).toEqual([
      [0, 'ab'],
      [1, 'ab'],
      [2, 'cd'],
      [3, 'cd'],
    ]);
    expect(usage).toMatchObject({ prompt_tokens: 4, completion_tokens: 8 });
    expect(stub.requests.map(({ sampling }) => sampling.seed)).toEqual([40, 41, 40, 41]);
    expect(new Set(stub.requests.map(({ requestId }) => requestId)).size).toBe(4);
  });

  test('uses a different seed for each choice, even at the end of the safe integer range', async () => {
    const stub = new StubService();
    const seed = Number.MAX_SAFE_INTEGER - 1;
    await whole(stub, COMPLETION, { prompt: 'a', n: 4, max_tokens: 1, temperature: 1, seed });
    const most = Number.MAX_SAFE_INTEGER;
    expect(stub.requests.map(({ sampling }) => sampling.seed)).toEqual([most - 1, most, -most, 1 - most]);
  });

  test('streams role, text and finish reason of each choice, and the usage of all', async () => {
    const stub = new StubService();
    const all = await chunks(stub, CHAT, {
      ...hello,
      n: 3,
      ...warm,
      stream_options: { include_usage: true },
    });
    for (const index of [0, 1, 2]) {
      const own = all.flatMap(({ choices }) => choices.filter((choice) => choice.index === index));
      expect(own[0]!.delta).toEqual({ role: 'assistant', content: '' });
      expect(own.map(({ delta }) => delta!.content).join('')).toBe('hel');
      expect(own.map(({ finish_reason }) => finish_reason)).toEqual([null, null, null, 'length']);
    }
    expect(all.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 9 } });
  });

  test('gets n choices of token ids from /inference/v1/generate', async () => {
    const stub = new StubService();
    const body = { token_ids: [5, 6], sampling_params: { n: 2, max_tokens: 1, ...warm } };
    const { choices } = await whole(stub, '/inference/v1/generate', body);
    expect(choices).toMatchObject([
      { index: 0, token_ids: [5] },
      { index: 1, token_ids: [5] },
    ]);
  });

  test('is refused with 400 if one of its prompts is bad', async () => {
    const stub = new StubService();
    const body = { prompt: ['good', 'x'.repeat(64)], max_tokens: 40, stream: true };
    const response = await stubApp(stub).request(COMPLETION, post(body));
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { param: 'prompt' } });
  });

  test('ends with an error in the stream if one choice fails', async () => {
    const stub = new StubService();
    stub.pace = () => new Promise((go) => setImmediate(go));
    stub.failure = { at: 2, error: new Error('lost') };
    const all = await chunks(stub, COMPLETION, { prompt: ['ab', 'cd'], max_tokens: 3 });
    expect(all.at(-1)).toMatchObject({ error: { code: 500 } });
  });

  test('needs a place per choice: 400 if there are too few, 503 if too few are free', async () => {
    const stub = new StubService();
    const app = stubApp(stub, { maxQueue: 1 });
    const four = await app.request(COMPLETION, post({ prompt: 'a', n: 4, ...warm }));
    expect(four.status).toBe(400);
    expect(await four.json()).toMatchObject({
      error: { param: 'n', message: expect.stringContaining('4 answers') },
    });
    const slow = await app.request(COMPLETION, post({ prompt: 'a', n: 2, ...warm, stream: true }));
    expect((await app.request(COMPLETION, post({ prompt: 'a', n: 2, ...warm }))).status).toBe(503);
    expect((await app.request(COMPLETION, post({ prompt: 'a' }))).status).toBe(200);
    await slow.text();
    expect((await app.request(COMPLETION, post({ prompt: 'a', n: 3, ...warm }))).status).toBe(200);
  });

  test('continues the conversation with its first choice only', async () => {
    const stub = new StubService();
    await whole(stub, CHAT, { ...hello, n: 2, ...warm, conversation_id: 'mine' });
    expect(stub.requests.map(({ conversationId }) => conversationId)).toEqual(['mine', null]);
  });

  test('with several choices and kv_transfer_params gets 400, and the service is notified', async () => {
    const stub = new StubService('engine');
    const bodies: unknown[] = [];
    stub.refused = (body?: unknown) => void bodies.push(body);
    const kv_transfer_params = { do_remote_decode: true };
    for (const body of [
      { prompt: ['a', 'b'], kv_transfer_params },
      { prompt: 'a', n: 2, ...warm, kv_transfer_params },
    ]) {
      const response = await stubApp(stub).request(COMPLETION, post(body));
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ error: { param: 'kv_transfer_params' } });
    }
    expect([bodies.length, stub.requests.length]).toEqual([2, 0]);
  });

  test('with kv_transfer_params and an impossible bad word gets 400, and the service is notified', async () => {
    const stub = new StubService('engine');
    const bodies: unknown[] = [];
    stub.refused = (body?: unknown) => void bodies.push(body);
    const kv_transfer_params = { do_remote_decode: true };
    const response = await stubApp(stub).request(
      COMPLETION,
      post({ prompt: 'a', bad_words: [' '], kv_transfer_params }),
    );
    expect([response.status, stub.requests.length]).toEqual([400, 0]);
    expect(bodies).toMatchObject([{ kv_transfer_params: { do_remote_decode: true } }]);
  });
});

describe('token ids and usage', () => {
  const ids = [...'hel'].map((character) => character.charCodeAt(0));
  const promptIds = [...'hello'].map((character) => character.charCodeAt(0));

  test('are in a chat with return_token_ids: prompt ids once, output ids with each chunk', async () => {
    const body = { ...hello, return_token_ids: true };
    const answer = await whole(new StubService(), CHAT, body);
    expect(answer.prompt_token_ids).toEqual(promptIds);
    expect(answer.choices[0]!.token_ids).toEqual(ids);
    const all = await chunks(new StubService(), CHAT, body);
    expect(all.map(({ prompt_token_ids }) => prompt_token_ids)).toEqual([
      promptIds,
      undefined,
      undefined,
      undefined,
    ]);
    expect(all.flatMap(({ choices }) => choices[0]!.token_ids ?? [])).toEqual(ids);
  });

  test('are in completions with return_token_ids: prompt and output ids with each choice', async () => {
    const body = { prompt: ['hello', 'x'], max_tokens: 2, return_token_ids: true };
    const { choices } = await whole(new StubService(), COMPLETION, body);
    expect(choices).toMatchObject([
      { prompt_token_ids: promptIds, token_ids: ids.slice(0, 2) },
      { prompt_token_ids: [120], token_ids: [120, 120] },
    ]);
    const all = await chunks(new StubService(), COMPLETION, body);
    const second = all.map(({ choices }) => choices[0]!).filter(({ index }) => index === 1);
    expect(second.map(({ prompt_token_ids }) => prompt_token_ids)).toEqual([[120], undefined]);
    expect(second.flatMap(({ token_ids }) => token_ids)).toEqual([120, 120]);
  });

  test('are streamed for a token without text only with return_token_ids', async () => {
    const stub = new StubService();
    const { generate } = stub;
    stub.generate = async function* (request) {
      for await (const piece of generate.call(stub, request)) yield { ...piece, text: '' };
    };
    const all = await chunks(stub, COMPLETION, { prompt: 'hello', max_tokens: 3, return_token_ids: true });
    expect(all.flatMap(({ choices }) => choices[0]!.token_ids)).toEqual(ids);
    expect(await chunks(stub, COMPLETION, { prompt: 'hello', max_tokens: 3 })).toHaveLength(1);
  });

  test('are in each chunk with continuous_usage_stats: the usage so far, if include_usage is set', async () => {
    const stream_options = { include_usage: true, continuous_usage_stats: true };
    const all = await chunks(new StubService(), CHAT, { ...hello, stream_options });
    expect(
      all.map(({ usage }) => [usage!.prompt_tokens, usage!.completion_tokens, usage!.total_tokens]),
    ).toEqual([
      [5, 0, 5],
      [5, 1, 6],
      [5, 2, 7],
      [5, 3, 8],
      [5, 3, 8],
    ]);
    const without = { ...hello, stream_options: { continuous_usage_stats: true } };
    expect((await chunks(new StubService(), CHAT, without)).some((chunk) => 'usage' in chunk)).toBe(false);
  });
});
