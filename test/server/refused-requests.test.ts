/** Requests refused before they are served: by JSON depth, Content-Type, Origin, Host or min_tokens. */
import { describe, expect, test } from 'vitest';
import { createLog } from '../../src/server/http/log.ts';
import { adminApp } from '../../src/server/operator/operator.ts';
import { asService, StubService } from './stub.ts';
import { CHAT, hello, noObserver, post, stubApp } from './stub-app.ts';

const told = async (response: Response) =>
  ((await response.json()) as { error: { message: string; type: string } }).error;

describe('a request body', () => {
  const deep = (open: string, close: string) => open.repeat(20_000) + close.repeat(20_000);
  test.each([
    ['lists at the top', deep('[', ']')],
    ['tools', `{"messages":[],"tools":${deep('[', ']')}}`],
    [
      'kv_transfer_params',
      `{"prompt":[1],"kv_transfer_params":{"a":${deep('{"a":', '}').replace(':}', ':1}')}}}`,
    ],
    ['prompt', `{"prompt":${deep('[', ']')}}`],
  ])('is refused with 400 on every path if it nests too deep: %s', async (_, body) => {
    const app = stubApp(new StubService('engine'), {});
    for (const path of [CHAT, '/v1/completions', '/inference/v1/generate', '/tokenize', '/detokenize']) {
      const response = await app.request(path, post(body));
      expect([path, response.status]).toEqual([path, 400]);
      expect((await told(response)).message).toMatch(/levels/);
    }
  });

  test('may have any number of brackets inside strings', async () => {
    const content = `${'['.repeat(30)}\\"${'{'.repeat(30)}`;
    const body = JSON.stringify({ prompt: content });
    expect((await stubApp(new StubService()).request('/tokenize', post(body))).status).toBe(200);
    const backslash = `{"prompt":"\\\\","x":${'['.repeat(200)}${']'.repeat(200)}}`;
    expect((await stubApp(new StubService()).request('/tokenize', post(backslash))).status).toBe(400);
  });
});

describe("a request's Content-Type", () => {
  const ask = (type: string) =>
    stubApp(new StubService()).request(CHAT, post(hello, { 'Content-Type': type }));

  test.each(['application/json', 'Application/JSON; charset=utf-8'])('%s is accepted', async (type) => {
    expect((await ask(type)).status).toBe(200);
  });

  test.each(['application/x-www-form-urlencoded', 'text/plain', 'multipart/form-data; boundary=x', ''])(
    "'%s' is refused with a 415 that names application/json",
    async (type) => {
      const response = await ask(type);
      expect(response.status).toBe(415);
      expect(await told(response)).toMatchObject({
        message: expect.stringMatching(/Content-Type: application\/json.*curl -H/),
        type: 'UnsupportedMediaTypeError',
      });
    },
  );
});

describe("a request's Content-Encoding", () => {
  const ask = (encoding: string) =>
    stubApp(new StubService()).request(CHAT, post(hello, { 'Content-Encoding': encoding }));

  test('other than identity is refused with a 415 that names it', async () => {
    expect((await ask('Identity')).status).toBe(200);
    const response = await ask('gzip');
    expect([response.status, response.headers.get('Accept-Encoding')]).toEqual([415, 'identity']);
    expect((await told(response)).message).toMatch(/Content-Encoding is 'gzip': wanted .*not compressed/);
  });
});

const admin = (hosts?: readonly string[]) =>
  adminApp(
    [
      {
        service: asService(new StubService('engine')),
        observability: {
          mountMetrics: () => {},
          mountDetails: () => {},
          observer: noObserver,
          answered: () => {},
          close: () => {},
        },
      },
    ],
    { adminKey: null, version: '1', log: createLog('text', () => {}), ...(hosts ? { hosts } : {}) },
  );

describe("a request's Origin", () => {
  const ask = (origin: string, host: string, corsOrigins: string[] = []) =>
    stubApp(new StubService(), { corsOrigins }).request(CHAT, post(hello, { Origin: origin, Host: host }));

  test('is refused with 403 if it is foreign, on client ports and the admin port', async () => {
    for (const origin of [
      'https://evil.example',
      'null',
      'http://localhost:1',
      'http://127.0.0.1.evil.example:8000',
    ]) {
      const response = await ask(origin, 'localhost:8000');
      expect([origin, response.status]).toEqual([origin, 403]);
      expect((await told(response)).message).toContain('--cors-origin');
    }
    const reset = await admin().request(
      '/decode-0/reset_prefix_cache',
      post({}, { Origin: 'https://evil.example' }),
    );
    expect(reset.status).toBe(403);
  });

  test("is accepted if it is the port's own or in --cors-origin, or if the request only reads", async () => {
    expect((await ask('http://localhost:8000', 'localhost:8000')).status).toBe(200);
    expect((await ask('https://a.example', 'localhost:8000', ['https://a.example'])).status).toBe(200);
    expect((await ask('null', 'localhost:8000', ['*'])).status).toBe(200);
    const models = await stubApp(new StubService()).request('/v1/models', {
      headers: { Origin: 'https://evil.example' },
    });
    expect(models.status).toBe(200);
  });
});

describe("a request's Host", () => {
  const ask = (host: string, hosts?: readonly string[]) =>
    stubApp(new StubService(), hosts ? { hosts } : {}).request('/v1/models', { headers: { Host: host } });

  test('is accepted if it is a loopback name or an address, since no page can rebind those', async () => {
    for (const host of [
      'localhost',
      'LOCALHOST:8000',
      'localhost.',
      '127.0.0.1:8000',
      '[::1]:8000',
      '10.1.2.3:80',
    ])
      expect([host, (await ask(host)).status]).toEqual([host, 200]);
  });

  test('is otherwise refused with a 403 that names --allowed-hosts, unless allowed there', async () => {
    for (const host of ['evil.example', 'localhost.evil.example:8000', '127.0.0.1.evil.example']) {
      const response = await ask(host);
      expect([host, response.status]).toEqual([host, 403]);
      expect(await told(response)).toMatchObject({
        message: expect.stringContaining('--allowed-hosts'),
        type: 'PermissionDeniedError',
      });
    }
    expect((await ask('gpu.example:8000', ['GPU.example'])).status).toBe(200);
    expect((await ask('any.example', ['*'])).status).toBe(200);
    expect((await admin().request('/health', { headers: { Host: 'evil.example' } })).status).toBe(403);
    expect(
      (await admin(['ops.example']).request('/health', { headers: { Host: 'ops.example' } })).status,
    ).toBe(200);
  });
});

describe('min_tokens', () => {
  test("is refused if above the token limit, also if that is the server's default", async () => {
    const stub = new StubService();
    const app = stubApp(stub, { defaults: { maxTokens: 8 } });
    const { max_tokens: _, ...free } = hello;
    const response = await app.request(CHAT, post({ ...free, min_tokens: 1e9 }));
    expect(response.status).toBe(400);
    expect((await told(response)).message).toMatch(
      /min_tokens is 1000000000, more than the limit of 8 tokens.*max_tokens/,
    );
    expect((await app.request(CHAT, post({ ...free, min_tokens: 8 }))).status).toBe(200);
  });
});
