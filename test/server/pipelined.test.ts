/** Over sockets: pipelined requests, which wait behind another one on their connection and end with it. */
import { once } from 'node:events';
import type { Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { Admission } from '../../src/server/http/admission.ts';
import { listenOn } from '../../src/server/http/listening.ts';
import { StubService } from './stub.ts';
import { stubApp } from './stub-app.ts';

let server: Server;
let socket: Socket;
afterEach(() => {
  socket.destroy();
  server.closeAllConnections();
  server.close();
});

/** Sends these bodies at once over one connection. */
async function pipelined(stub: StubService, admission: Admission, bodies: readonly object[]): Promise<void> {
  const app = stubApp(stub, { admission });
  server = await listenOn(app, { host: '127.0.0.1', port: 0, writeTimeoutMs: 60_000 });
  socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  await once(socket, 'connect');
  const texts = bodies.map((body) => JSON.stringify(body));
  const head = 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n';
  socket.write(texts.map((text) => `${head}Content-Length: ${text.length}\r\n\r\n${text}`).join(''));
}

/** A request for one token never gets it; one for more ends at once. */
function firstNeverEnds(): StubService {
  const stub = new StubService();
  stub.pace = () =>
    stub.requests.at(-1)!.sampling.maxTokens === 1 ? new Promise(() => {}) : Promise.resolve();
  return stub;
}

const first = { prompt: [1], max_tokens: 1 };

test.each([true, false])('unsent pipelined answers free their places: stream %j', async (stream) => {
  const stub = firstNeverEnds();
  const admission = new Admission(8, 0);
  await pipelined(stub, admission, [first, ...Array(3).fill({ prompt: [1], max_tokens: 2, stream })]);
  await expect.poll(() => stub.tokens).toBe(6);
  socket.destroy();
  await expect.poll(() => stub.aborted).toBe(1);
  // Resolves once no admitted request is left.
  await admission.close('stopping');
});

test('all pipelined requests of a connection are aborted when it closes', async () => {
  const stub = new StubService();
  stub.pace = () => new Promise(() => {});
  await pipelined(stub, new Admission(8, 0), [first, first, { ...first, stream: true }]);
  await expect.poll(() => stub.requests.length).toBe(3);
  socket.destroy();
  await expect.poll(() => stub.aborted).toBe(3);
});
