/** Requests that are too large to be valid are refused on every path before any work is done on them. */
import { describe, expect, test } from 'vitest';
import { MOST_MESSAGES, MOST_PARTS, mostBodyBytes } from '../../src/server/http/request-limits.ts';
import { mountKvQuery } from '../../src/server/kv/kv-query.ts';
import { asService, StubService } from './stub.ts';
import { CHAT, post, stubApp } from './stub-app.ts';

/** The stub's context is 64 tokens of at most 4 characters each. */
const LONG = 'x'.repeat(4 * 64 + 1);
const IDS = Array(65).fill(1);
const user = (content: unknown) => ({ role: 'user', content });
const part = { type: 'text', text: '' };

/** Counts how often a text or messages are encoded. */
class Watched extends StubService {
  encoded = 0;

  constructor() {
    super('engine');
    const { encode, encodeMessages } = this.text;
    this.text.encode = (text) => {
      this.encoded++;
      return encode(text);
    };
    this.text.encodeMessages = (messages, end) => {
      this.encoded++;
      return encodeMessages(messages, end);
    };
  }
}

function watchedApp() {
  const stub = new Watched();
  return { stub, app: stubApp(stub, { mount: (app) => mountKvQuery(app, asService(stub)) }) };
}

describe('an oversized request', () => {
  const params = { do_remote_prefill: true };
  test.each<[string, object, string]>([
    ['/v1/completions', { prompt: LONG }, 'prompt'],
    ['/v1/completions', { prompt: IDS }, 'prompt'],
    ['/v1/completions', { prompt: [LONG] }, 'prompt'],
    ['/v1/completions', { prompt: [IDS] }, 'prompt'],
    ['/v1/completions', { prompt: Array(65).fill('') }, 'prompt'],
    ['/inference/v1/generate', { token_ids: IDS, sampling_params: {} }, 'token_ids'],
    [CHAT, { messages: [user(LONG)] }, 'messages'],
    [CHAT, { messages: [user([{ ...part, text: LONG }])] }, 'messages'],
    [CHAT, { messages: Array(65).fill(user('xxxxx')) }, 'messages'],
    [CHAT, { messages: Array(MOST_MESSAGES + 1).fill(user('')) }, 'messages'],
    [CHAT, { messages: [user(Array(MOST_PARTS + 1).fill(part))] }, 'messages.0.content'],
    [CHAT, { messages: [{ role: 'x'.repeat(65), content: '' }] }, 'messages.0.role'],
    ['/tokenize', { prompt: LONG }, 'prompt'],
    ['/tokenize', { messages: [user(LONG)] }, 'messages'],
    ['/detokenize', { tokens: IDS }, 'tokens'],
    ['/kv/query', { prompt: LONG }, 'prompt'],
    ['/kv/query', { prompt: IDS }, 'prompt'],
    ['/kv/query', { token_ids: IDS }, 'token_ids'],
    ['/kv/query', { messages: [user(LONG)] }, 'messages'],
    [
      '/v1/completions',
      { prompt: 'a', kv_transfer_params: { ...params, remote_token_ids: IDS } },
      'kv_transfer_params.remote_token_ids',
    ],
    [
      '/v1/completions',
      { prompt: 'a', kv_transfer_params: { ...params, remote_block_ids: [IDS] } },
      'kv_transfer_params.remote_block_ids',
    ],
    [
      '/v1/completions',
      { prompt: 'a', kv_transfer_params: Object.fromEntries(IDS.map((_, i) => [`k${i}`, 1])) },
      'kv_transfer_params',
    ],
    [
      '/inference/v1/generate',
      { token_ids: [1], sampling_params: { extra_args: { kv_transfer_params: { remote_token_ids: IDS } } } },
      'kv_transfer_params.remote_token_ids',
    ],
  ])('is refused before anything is encoded: %s %j', async (path, body, param) => {
    const { stub, app } = watchedApp();
    const response = await app.request(path, post(body));
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { param, type: 'BadRequestError' } });
    expect([stub.encoded, stub.requests.length]).toEqual([0, 0]);
  });
});

test('a message may have as many parts as are allowed', async () => {
  const { stub, app } = watchedApp();
  const body = { messages: [user(Array(MOST_PARTS).fill(part))] };
  const response = await app.request('/tokenize', post(body));
  // The lines that the parts are joined to are too long for the stub's context.
  expect(await response.json()).toMatchObject({
    error: { message: expect.stringMatching(/has 255 tokens/) },
  });
  expect(stub.encoded).toBe(1);
});

describe('a text with more tokens than the context', () => {
  // 65 tokens, where its length allows as few as 17.
  const text = 'x'.repeat(65);

  test.each([
    ['/tokenize', { prompt: text }, 'prompt'],
    ['/tokenize', { messages: [user(text)] }, 'messages'],
    ['/kv/query', { prompt: text }, 'prompt'],
  ])('is refused once it is encoded: %s %j', async (path, body, param) => {
    const response = await watchedApp().app.request(path, post(body));
    expect(response.status).toBe(400);
    const { error } = (await response.json()) as { error: object };
    expect(error).toMatchObject({ param, message: expect.stringMatching(/has 65 tokens.*context is 64/) });
  });
});

test('the body limit fits the longest prompt, even in escapes, and little more', async () => {
  const { stub, app } = watchedApp();
  const most = mostBodyBytes(asService(stub));
  expect(most).toBeLessThan(300_000);
  const spelled = `{"prompt":"${'\\u0078'.repeat(64)}"${' '.repeat(most - 400)}}`;
  expect((await app.request('/tokenize', post(spelled))).status).toBe(200);
  for (const path of ['/tokenize', '/detokenize', '/kv/query', CHAT, '/v1/completions']) {
    const response = await app.request(path, post(' '.repeat(most + 1)));
    expect(response.status).toBe(413);
  }
});

test('a list is refused by its length first, else by its first bad element; a salt by its length and its halves of pairs', async () => {
  const app = stubApp(new StubService());
  const told = async (body: object) => {
    const response = await app.request('/v1/completions', post(body));
    return ((await response.json()) as { error: { message: string } }).error.message;
  };
  const stops = Array(40_000).fill('');
  expect(await told({ prompt: 'a', stop: stops })).toMatch(/^stop is .*wanted at most 64 strings/);
  expect(await told({ prompt: 'a', stop_token_ids: stops })).toMatch(/at most 1024 token ids/);
  expect(await told({ prompt: 'a', cache_salt: 'x'.repeat(1025) })).toMatch(/at most 1024 characters/);
  expect(await told({ prompt: 'a', cache_salt: '\ud83d' })).toMatch(
    /^cache_salt is .*half of a surrogate pair/,
  );
  expect(await told({ prompt: [1, -1, 'x'] })).toMatch(/prompt\.1 is -1: wanted token ids/);
});
