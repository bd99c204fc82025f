/** However a request ends, its place in the queue and its generation are released. */
import type { AddressInfo } from 'node:net';
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { describe, expect, test } from 'vitest';
import { createLog } from '../../src/server/http/log.ts';
import { StubService } from './stub.ts';
import { CHAT, hello, post, stubApp } from './stub-app.ts';

const COMPLETION = '/v1/completions';
const streamed = { prompt: [1], max_tokens: 2, stream: true };

/** More than the stub's 2 + 256 places. */
const MANY = 400;

/** Counts generations that began and have not ended. */
class Counted extends StubService {
  open = 0;

  override async *generate(request: Parameters<StubService['generate']>[0]) {
    this.open++;
    try {
      yield* super.generate(request);
    } finally {
      this.open--;
    }
  }
}

describe('ids of requests and conversations', () => {
  test.each(['日', 'a\r\nb', 'a\nb', 'a\u2028b', 'a\u0001', '\u007f', 'é', 'x'.repeat(257)])(
    'are refused without taking a place, however often: request_id %j',
    async (id) => {
      const stub = new Counted();
      const app = stubApp(stub);
      for (let i = 0; i < MANY; i++) {
        const response = await app.request(COMPLETION, post({ ...streamed, request_id: id }));
        expect(response.status).toBe(400);
        expect(await response.json()).toMatchObject({ error: { param: 'request_id', code: 400 } });
      }
      expect([stub.open, stub.requests.length]).toEqual([0, 0]);
      expect((await app.request(COMPLETION, post(streamed))).status).toBe(200);
    },
  );

  test.each([
    ['X-Request-Id', 'é'],
    ['X-Request-Id', 'x'.repeat(257)],
    ['X-Conversation-Id', 'é'],
    ['X-Session-Id', 'x'.repeat(257)],
  ])('are refused in headers: %s of %j', async (name, id) => {
    const stub = new StubService('engine');
    const bodies: unknown[] = [];
    stub.refused = (body?: unknown) => void bodies.push(body);
    for (const [path, init] of [
      [CHAT, post(hello, { [name]: id })],
      ['/v1/models', { headers: { [name]: id } }],
    ] as const) {
      const response = await stubApp(stub).request(path, init);
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ error: { param: name } });
      expect(response.headers.get('X-Request-Id')).toMatch(/^[0-9a-f]{32}$/);
    }
    // Its holder is told to free the blocks that it names.
    expect([bodies, stub.requests]).toEqual([[hello], []]);
  });

  test.each(['conversation_id', 'session_id'])('are refused in the field %s', async (field) => {
    const response = await stubApp(new StubService()).request(CHAT, post({ ...hello, [field]: 'a\u2028b' }));
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { param: field } });
  });

  test('are returned unchanged in X-Request-Id if valid', async () => {
    const id = 'a b/{c}~'.repeat(32);
    const app = stubApp(new StubService());
    const inBody = await app.request(CHAT, post({ ...hello, request_id: id }));
    const inHeader = await app.request(CHAT, post(hello, { 'X-Request-Id': id }));
    for (const response of [inBody, inHeader]) expect(response.headers.get('X-Request-Id')).toBe(id);
  });

  test('are in every response, generated if not given, and the log has the same', async () => {
    const logged: string[] = [];
    const log = createLog('json', (line) => logged.push(line));
    const app = stubApp(new StubService(), { log });
    const told = async (path: string, init: RequestInit = {}) => {
      const response = await app.request(path, init);
      await response.text();
      return response.headers.get('X-Request-Id');
    };
    const ids = [
      await told('/health'),
      await told('/v1/models', { headers: { 'X-Request-Id': 'mine' } }),
      await told('/tokenize', post({ prompt: 'a' })),
      await told(CHAT, post({ ...hello, request_id: 'in the body', stream: true })),
      await told('/nowhere'),
    ];
    const made = expect.stringMatching(/^[0-9a-f]{32}$/);
    expect(ids).toEqual([made, 'mine', made, 'in the body', made]);
    const requests = logged.map((line) => JSON.parse(line)).filter(({ event }) => event === 'request');
    expect(requests.map(({ request_id }) => request_id)).toEqual(ids);
  });
});

describe('a response that fails', () => {
  test.each([true, false])('releases what it holds if the access log throws: stream %j', async (stream) => {
    const stub = new Counted();
    let fails = true;
    const log = {
      access: () => {
        if (fails) throw new Error('no space left on device');
      },
      ended: () => {},
      note: () => {},
      error: () => {},
    };
    const app = stubApp(stub, { log });
    for (let i = 0; i < MANY; i++) {
      expect((await app.request(COMPLETION, post({ ...streamed, stream }))).status).toBe(500);
    }
    await expect.poll(() => stub.open).toBe(0);
    fails = false;
    const after = await app.request(COMPLETION, post({ ...streamed, stream }));
    expect(after.status).toBe(200);
    await after.text();
    expect(stub.requests).toHaveLength(MANY + 1);
  });

  test.each([true, false])('releases what it holds if formatting throws: stream %j', async (stream) => {
    const stub = new Counted();
    const { generate } = stub;
    stub.generate = async function* (request) {
      for await (const piece of generate.call(stub, request)) yield { ...piece, logits: {} as Float32Array };
    };
    const app = stubApp(stub);
    for (let i = 0; i < MANY; i++) {
      const response = await app.request(COMPLETION, post({ ...streamed, stream, logprobs: 1 }));
      expect(await response.text()).toContain('InternalServerError');
    }
    await expect.poll(() => stub.open).toBe(0);
    expect((await app.request(COMPLETION, post(streamed))).status).toBe(200);
  });

  test("releases its generation if Node refuses a header's characters", async () => {
    const stub = new Counted();
    const app = new Hono();
    app.use(async (c, next) => {
      await next();
      c.res.headers.set('X-Bad', '\u0001');
    });
    app.route('/', stubApp(stub));
    const server = serve({ fetch: app.fetch, hostname: '127.0.0.1', port: 0 });
    await new Promise((resolve) => server.once('listening', resolve));
    const { port } = server.address() as AddressInfo;
    const { error } = console;
    console.error = () => {};
    try {
      for (let i = 0; i < 20; i++) {
        const sent = fetch(`http://127.0.0.1:${port}${COMPLETION}`, post({ ...streamed, max_tokens: 60 }));
        await sent.then((response) => response.text()).catch(() => {});
      }
      await expect.poll(() => stub.open).toBe(0);
      expect(stub.requests).toHaveLength(20);
    } finally {
      console.error = error;
      await new Promise((resolve) => server.close(resolve));
    }
  });
});
