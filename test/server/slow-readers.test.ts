/** Over sockets: clients that do not read their answer, read it slowly, or wait long for it. */
import { once } from 'node:events';
import type { Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { listenOn } from '../../src/server/http/listening.ts';
import { StubService } from './stub.ts';
import { stubApp } from './stub-app.ts';

const TIMEOUT_MS = 200;
/** More in all than the system buffers for a connection that nobody reads. */
const TOKENS = 960;
const TEXT = 'x'.repeat(2 ** 16);

/** Answers with 64 KiB per token; counts open generations, and tokens that came with logits. */
class Large extends StubService {
  override readonly model = { names: ['nano'], maxModelLen: 1024, vocabSize: 512, eosTokenIds: [0] };
  open = 0;
  vocabularies = 0;

  override async *generate(request: Parameters<StubService['generate']>[0]) {
    this.open++;
    try {
      for await (const piece of super.generate(request)) {
        if (piece.logits) this.vocabularies++;
        yield { ...piece, text: TEXT };
      }
    } finally {
      this.open--;
    }
  }
}

const opened: (Server | Socket)[] = [];
afterEach(async () => {
  for (const one of opened.splice(0)) {
    if ('closeAllConnections' in one) {
      one.closeAllConnections();
      one.close();
    } else one.destroy();
  }
});

async function listening(stub: StubService, writeTimeoutMs = TIMEOUT_MS): Promise<number> {
  const app = stubApp(stub, { maxQueue: 0 });
  const server = await listenOn(app, { host: '127.0.0.1', port: 0, writeTimeoutMs });
  opened.push(server);
  return (server.address() as AddressInfo).port;
}

/** Sends the body and reads nothing. */
async function silent(port: number, body: object): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  opened.push(socket);
  socket.pause();
  socket.on('error', () => {});
  await once(socket, 'connect');
  const text = JSON.stringify(body);
  socket.write(
    `POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
  );
  return socket;
}

const ask = (port: number, body: object): Promise<Response> =>
  fetch(`http://127.0.0.1:${port}/v1/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });

const small = { prompt: [1], max_tokens: 1 };

describe('a client that does not read', () => {
  test.each([true, false])('loses its connection and frees its place (stream %j)', async (stream) => {
    const stub = new Large();
    let begin = () => {};
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    stub.pace = () => begun;
    const port = await listening(stub);
    const body = { prompt: [1], max_tokens: TOKENS, stream };
    const sockets = [await silent(port, body), await silent(port, body)];
    await expect.poll(() => stub.requests.length).toBe(2);
    // As long as there are no bytes to read, the time limit does not run.
    expect((await ask(port, small)).status).toBe(503);
    begin();
    await expect.poll(async () => (await ask(port, small)).status).toBe(200);
    expect(stub.open).toBe(0);
    for (const socket of sockets) {
      socket.resume();
      await expect.poll(() => socket.closed).toBe(true);
      expect(socket.bytesRead).toBeLessThan(TOKENS * TEXT.length);
    }
  });

  test('has its logprobs computed as tokens come, so that no logits are kept', async () => {
    const stub = new Large();
    const port = await listening(stub);
    await silent(port, { prompt: [1], max_tokens: TOKENS, stream: true, logprobs: 1 });
    await expect.poll(() => stub.vocabularies).toBe(TOKENS);
  });
});

describe('a client that reads', () => {
  test('slowly gets its whole answer', async () => {
    const stub = new Large();
    const limitMs = 1000;
    const port = await listening(stub, limitMs);
    const response = await ask(port, { prompt: [1], max_tokens: TOKENS, stream: true });
    let bytes = 0;
    const began = performance.now();
    for await (const chunk of response.body!) {
      bytes += chunk.byteLength;
      // Longer than the limit in all, but each pause is far shorter.
      if (performance.now() - began < 1.5 * limitMs) await new Promise((go) => setTimeout(go, limitMs / 100));
    }
    expect(bytes).toBeGreaterThan(TOKENS * TEXT.length);
  });

  test('gets its answer if the engine takes longer than the write timeout', async () => {
    const stub = new Large();
    stub.pace = () => new Promise((go) => setTimeout(go, 2 * TIMEOUT_MS));
    const port = await listening(stub);
    const response = await ask(port, { prompt: [1], max_tokens: 2, stream: true });
    expect(await response.text()).toContain('[DONE]');
  });
});
