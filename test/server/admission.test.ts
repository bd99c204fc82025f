import { describe, expect, test } from 'vitest';
import { TransferError } from '../../src/errors.ts';
import { Admission } from '../../src/server/http/admission.ts';
import type { RequestRecord } from '../../src/server/observer.ts';
import { StubService } from './stub.ts';
import { CHAT, hello, post, stubApp } from './stub-app.ts';

describe('access to a port', () => {
  test('requires the API key if there is one, except for /health and /ping', async () => {
    const app = stubApp(new StubService(), { apiKey: 'secret' });
    const status = async (authorization?: string) => {
      const headers: Record<string, string> = authorization ? { Authorization: authorization } : {};
      return (await app.request(CHAT, post(hello, headers))).status;
    };
    expect(await status()).toBe(401);
    expect(await status('Bearer None')).toBe(401);
    expect(await status('Bearer secre')).toBe(401);
    expect(await status('Bearer secret')).toBe(200);
    expect(await status('bearer  secret')).toBe(200);
    expect(await status('Basic secret')).toBe(401);
    expect((await app.request('/v1/models')).status).toBe(401);
    for (const path of ['/health', '/ping']) expect((await app.request(path)).status).toBe(200);
  });

  test('is allowed to pages of other origins only if --cors-origin names them', async () => {
    const origin = { Origin: 'https://a.example' };
    const allowed = async (corsOrigins: string[]) => {
      const app = stubApp(new StubService(), { corsOrigins });
      const response = await app.request(CHAT, post(hello, origin));
      return response.headers.get('Access-Control-Allow-Origin');
    };
    expect(await allowed([])).toBeNull();
    expect(await allowed(['https://b.example'])).toBeNull();
    expect(await allowed(['https://a.example'])).toBe('https://a.example');
    for (const any of [['*'], ['https://b.example', '*']]) expect(await allowed(any)).toBe('*');
  });

  test('lets pages of other origins read the request id, the engines and when to try again', async () => {
    const app = stubApp(new StubService(), { corsOrigins: ['https://a.example'] });
    const response = await app.request(CHAT, post(hello, { Origin: 'https://a.example' }));
    const exposed = response.headers.get('Access-Control-Expose-Headers')?.split(',');
    expect(exposed).toEqual(['X-Request-Id', 'Retry-After', 'target-pod', 'prefill-target-pod']);
    expect(response.headers.get('X-Request-Id')).toBeTruthy();
  });

  test('lets pages of other origins read errors, also that of a bad id', async () => {
    const app = stubApp(new StubService(), { corsOrigins: ['https://a.example'] });
    const headers = { Origin: 'https://a.example', 'X-Session-Id': 'é' };
    const response = await app.request(CHAT, post(hello, headers));
    expect(response.status).toBe(400);
    expect(response.headers.get('Access-Control-Allow-Origin')).toBe('https://a.example');
  });
});

describe('admission of requests', () => {
  test('refuses with 503 and Retry-After if the queue is full; ended requests free their places', async () => {
    const stub = new StubService();
    let go: () => void = () => {};
    stub.pace = () =>
      new Promise((resolve) => {
        go = resolve;
      });
    const records: RequestRecord[] = [];
    const observer = {
      requested: () => {},
      token: () => {},
      finished: (record: RequestRecord) => void records.push(record),
    };
    // Two are served at once, one may wait.
    const app = stubApp(stub, { maxQueue: 1, observer });
    const open = new AbortController();
    const waiting = Array.from({ length: 3 }, () =>
      app.request(new Request(`http://localhost${CHAT}`, { ...post(hello), signal: open.signal })),
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

  test('tells late requests, and those that it aborts, why the port has closed', async () => {
    const stub = new StubService();
    stub.pace = () => new Promise(() => {});
    const admission = new Admission(2, 0);
    const app = stubApp(stub, { admission });
    const message = async (answer: Response) =>
      ((await answer.json()) as { error: { message: string } }).error.message;
    const waiting = app.request(CHAT, post(hello));
    await expect.poll(() => stub.requests.length).toBe(1);
    void admission.close('decode-0 has left');
    expect(await message(await app.request(CHAT, post(hello)))).toBe('decode-0 has left');
    admission.abortAll('decode-0 has left');
    expect(await message(await waiting)).toBe('decode-0 has left');
  });

  test('aborts a request whose client leaves the stream', async () => {
    const stub = new StubService();
    let tokens = 0;
    stub.pace = async () => {
      if (++tokens > 2) await new Promise(() => {});
    };
    const response = await stubApp(stub).request(CHAT, post({ ...hello, stream: true }));
    const reader = response.body!.getReader();
    for (let i = 0; i < 3; i++) await reader.read();
    await expect.poll(() => tokens).toBe(3);
    await reader.cancel();
    await expect.poll(() => stub.aborted).toBe(1);
  });

  test('leaves room for texts where nothing may wait', async () => {
    const app = stubApp(new StubService(), { maxQueue: 0 });
    expect((await app.request('/tokenize', post({ prompt: 'a' }))).status).toBe(200);
    expect((await app.request('/detokenize', post({ tokens: [97] }))).status).toBe(200);
  });

  test('frees the place of a slow reader only when it has read its answer', async () => {
    const stub = new StubService();
    const app = stubApp(stub, { maxQueue: 0 });
    const slow = await app.request(CHAT, post({ ...hello, n: 2, temperature: 1, stream: true }));
    await expect.poll(() => stub.tokens).toBe(6);
    let received = false;
    void stub.requests[0]!.received.then(() => {
      received = true;
    });
    expect((await app.request(CHAT, post(hello))).status).toBe(503);
    expect(received).toBe(false);
    await slow.text();
    await stub.requests[0]!.received;
    expect((await app.request(CHAT, post(hello))).status).toBe(200);
  });
});
