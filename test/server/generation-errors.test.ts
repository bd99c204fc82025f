import { describe, expect, test } from 'vitest';
import {
  AdapterError,
  ConflictError,
  EngineDeadError,
  RequestError,
  RoutingError,
  TransferError,
} from '../../src/errors.ts';
import { MOST_BODY_BYTES } from '../../src/server/http/request-limits.ts';
import { events, StubService } from './stub.ts';
import { CHAT, hello, post, stubApp } from './stub-app.ts';

describe('a generation request', () => {
  const bad: [object | string, string | null, RegExp][] = [
    ['{', null, /not JSON/],
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
    [
      { ...hello, max_tokens: 60 },
      'max_tokens',
      /60 and the prompt has 5 tokens: wanted at most 64 together/,
    ],
    [{ ...hello, min_tokens: 4 }, 'min_tokens', /more than the limit of 3 tokens/],
    [{ ...hello, temperature: -1 }, 'temperature', /0 is greedy/],
    [{ ...hello, top_p: 0 }, 'top_p', /above 0/],
    [{ ...hello, n: 0 }, 'n', /a whole number, 1 or more/],
    [
      { ...hello, n: 2 },
      'n',
      /n is 2 and temperature is not given \(this server's --temperature is 0\), so all answers would be the same: give/,
    ],
    [{ ...hello, n: 2, temperature: 0 }, 'n', /n is 2 and temperature is 0, so all answers/],
    [{ ...hello, presence_penalty: 1 }, 'presence_penalty', /not supported/],
    [{ ...hello, tools: [{}] }, 'tools', /not supported/],
    [{ ...hello, top_logprobs: 3 }, 'top_logprobs', /logprobs is not true/],
    [{ ...hello, stop_token_ids: [512] }, 'stop_token_ids', /vocabulary size, 512/],
    [
      { ...hello, messages: [{ role: 'user', content: 'x'.repeat(64) }] },
      'messages',
      /64 tokens.*context, 64/,
    ],
    [{ ...hello, messages: [{ role: 'user', content: 'x'.repeat(400) }] }, 'messages', /at least 100 tokens/],
    [{ ...hello, stream_options: { include_usage: true } }, 'stream_options', /stream is not true/],
    [{ ...hello, stream: false, stream_options: { x: 1 } }, 'stream_options', /stream is not true/],
    [{ ...hello, kv_transfer_params: 'x' }, 'kv_transfer_params', /an object/],
  ];

  test.each<[string, object]>([
    [CHAT, hello],
    ['/v1/completions', { prompt: 'a', max_tokens: 1 }],
    ['/inference/v1/generate', { token_ids: [1], sampling_params: { max_tokens: 1 } }],
    ['/tokenize', { prompt: 'a' }],
    ['/detokenize', { tokens: [97] }],
  ])("to %s for another model gets 404; no model, '' and null mean the server's", async (path, body) => {
    const app = stubApp(new StubService());
    const other = await app.request(path, post({ ...body, model: 'another' }));
    expect([other.status, await other.json()]).toMatchObject([404, { error: { param: 'model' } }]);
    for (const model of [undefined, null, '', 'nano', 'alias'])
      expect((await app.request(path, post({ ...body, model }))).status, `${model}`).toBe(200);
  });

  test.each(bad)('is refused with 400: %j', async (body, param, message) => {
    const response = await stubApp(new StubService()).request(CHAT, post(body));
    const { error } = (await response.json()) as { error: { message: string } };
    expect(response.status).toBe(400);
    expect(error).toEqual({
      message: expect.stringMatching(message),
      type: 'BadRequestError',
      param,
      code: 400,
    });
  });

  test('is refused for a number that overflows: 1e999 is Infinity, not null', async () => {
    const init = post(hello);
    const body = String(init.body).replace(/\}$/, ',"temperature":1e999}');
    const response = await stubApp(new StubService()).request(CHAT, { ...init, body });
    const { error } = (await response.json()) as { error: { message: string } };
    expect(error.message).toMatch(/^temperature is Infinity: wanted a number/);
  });

  test.each([
    [{ prompt: ['a', ''] }, /no tokens/],
    [{ prompt: [] }, /prompt/],
    [{ prompt: '' }, /no tokens/],
    [{ prompt: [600] }, /token id 600: wanted ids below the vocabulary size, 512/],
  ])('to /v1/completions is refused with 400: %j', async (body, message) => {
    const response = await stubApp(new StubService()).request('/v1/completions', post(body));
    const { error } = (await response.json()) as { error: { message: string; param: string } };
    expect([response.status, error.param]).toEqual([400, 'prompt']);
    expect(error.message).toMatch(message);
  });

  test('gets 404 for an unknown model, 405 for another method, 413 for too many bytes', async () => {
    const app = stubApp(new StubService());
    expect((await app.request(CHAT, post({ ...hello, model: 'gpt' }))).status).toBe(404);
    const long = await app.request(CHAT, post({ ...hello, model: 'x'.repeat(10_000) }));
    expect(long.status).toBe(404);
    expect((await long.text()).length).toBeLessThan(500);
    const wrongMethod = await app.request(CHAT);
    expect([wrongMethod.status, wrongMethod.headers.get('Allow')]).toEqual([405, 'POST']);
    // Both the bytes that arrive and those announced count.
    const announced = post('{}', { 'Content-Length': String(MOST_BODY_BYTES + 1) });
    for (const large of [post(' '.repeat(MOST_BODY_BYTES + 1)), announced]) {
      const huge = await app.request(CHAT, large);
      expect(huge.status).toBe(413);
      expect(await huge.json()).toMatchObject({ error: { code: 413, type: 'RequestEntityTooLargeError' } });
    }
  });

  test('that fails before its first token gets the status of its error', async () => {
    for (const [error, status] of [
      [new RequestError('no'), 400],
      [new ConflictError('wait'), 409],
      [new AdapterError('two more engines do not fit'), 400],
      [new TransferError('lost'), 500],
      [new EngineDeadError('dead'), 503],
      [new Error('bug'), 500],
    ] as const) {
      const stub = new StubService();
      stub.failure = { at: 0, error };
      for (const stream of [false, true]) {
        expect((await stubApp(stub).request(CHAT, post({ ...hello, stream }))).status).toBe(status);
      }
    }
  });

  test('gets a 400 that names the routing-strategy header if the policy cannot route', async () => {
    const stub = new StubService();
    stub.failure = { at: 0, error: new RoutingError('16 mixes') };
    const response = await stubApp(stub).request(CHAT, post(hello));
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { param: 'routing-strategy' } });
  });

  test('that fails after its first token gets the error in its stream, which then ends', async () => {
    const stub = new StubService();
    stub.failure = { at: 2, error: new EngineDeadError('dead') };
    const chunks = await events(await stubApp(stub).request(CHAT, post({ ...hello, stream: true })));
    expect(chunks).toHaveLength(4);
    expect(chunks.at(-1)).toMatchObject({ error: { message: 'dead', code: 503 } });
  });
});
