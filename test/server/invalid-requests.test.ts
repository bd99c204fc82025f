/** Over sockets: requests that are rejected before the app sees them get the app's error bodies. */
import { once } from 'node:events';
import type { Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { networkInterfaces } from 'node:os';
import { afterEach, beforeEach, expect, it, onTestFinished } from 'vitest';
import { listenOn, urlOf } from '../../src/server/http/listening.ts';
import { StubService } from './stub.ts';
import { stubApp } from './stub-app.ts';

let server: Server;
let stub: StubService;
beforeEach(async () => {
  stub = new StubService();
  server = await listenOn(stubApp(stub), { host: '127.0.0.1', port: 0, writeTimeoutMs: 60_000 });
});
afterEach(() => {
  server.closeAllConnections();
  server.close();
});

function open() {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').setEncoding('utf8');
  const got = { text: '' };
  socket.on('data', (text: string) => {
    got.text += text;
  });
  return { socket, got };
}

/** Everything that the server sends until it closes the connection. */
async function answerTo(request: string): Promise<string> {
  const { socket, got } = open();
  socket.write(request);
  await once(socket, 'close');
  return got.text;
}

const host = 'Host: localhost\r\n';
const close = 'Connection: close\r\n';

it.each([
  ['no HTTP', 400, 'NOT HTTP\r\n\r\n'],
  ['a TLS handshake', 400, '\x16\x03\x01\x02\x00'],
  ['two lengths', 400, `POST /tokenize HTTP/1.1\r\n${host}Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}`],
  [
    'a chunk without a size',
    400,
    `POST /tokenize HTTP/1.1\r\n${host}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
  ],
  ['no Host', 400, `GET /v1/models HTTP/1.1\r\n\r\n`],
  ['a Host that is no host', 400, `GET /v1/models HTTP/1.1\r\n${close}Host: a b<>\r\n\r\n`],
  [
    'a Host with a port that is no port',
    400,
    `GET /v1/models HTTP/1.1\r\n${close}Host: localhost:-1\r\n\r\n`,
  ],
  ['a backslash in the path', 400, `GET /\\..\\x HTTP/1.1\r\n${close}${host}\r\n`],
  ['a target without a path', 400, `OPTIONS * HTTP/1.1\r\n${close}${host}\r\n`],
  ['another Expect', 417, `POST /tokenize HTTP/1.1\r\n${host}Expect: x\r\nContent-Length: 2\r\n\r\n{}`],
  ['headers of 20 kB', 431, `GET /health HTTP/1.1\r\n${host}X: ${'x'.repeat(20_000)}\r\n\r\n`],
])('%s gets a %i with an error body', async (_, status, request) => {
  const [head, body] = (await answerTo(request)).split('\r\n\r\n');
  expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} [\\s\\S]*content-type: application/json`, 'i'));
  expect(JSON.parse(body!)).toEqual({
    error: { message: expect.stringMatching(/: \w/), type: expect.any(String), param: null, code: status },
  });
});

it('HTTP/1.0 needs no Host', async () => {
  expect(await answerTo('GET /v1/models HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1.1 200 /);
});

const hasIPv6 = Object.values(networkInterfaces()).some((all) =>
  all?.some(({ family }) => family === 'IPv6'),
);

it.skipIf(!hasIPv6)('HTTP/1.0 needs no Host on an IPv6 address either', async () => {
  const other = await listenOn(stubApp(stub), { host: '::1', port: 0, writeTimeoutMs: 60_000 });
  const socket = connect((other.address() as AddressInfo).port, '::1').setEncoding('utf8');
  socket.write('GET /v1/models HTTP/1.0\r\n\r\n');
  const [answer] = await once(socket, 'data');
  expect(answer).toMatch(/^HTTP\/1.1 200 /);
  socket.destroy();
  other.close();
});

it.skipIf(!hasIPv6).each(['::ffff:127.0.0.1', '0:0:0:0:0:0:0:1', '127.1'])(
  'the URL of a server on %s is one that it answers',
  async (host) => {
    const other = await listenOn(stubApp(stub), { host, port: 0, writeTimeoutMs: 60_000 });
    onTestFinished(() => void other.close());
    const socket = connect((other.address() as AddressInfo).port, host).setEncoding('utf8');
    // Not by fetch(), which would spell the address as URLs do.
    socket.write(`GET /v1/models HTTP/1.1\r\nHost: ${urlOf(host, other).slice('http://'.length)}\r\n\r\n`);
    const [answer] = await once(socket, 'data');
    expect(answer).toMatch(/^HTTP\/1.1 200 /);
    socket.destroy();
  },
);

it.each(['[::ffff:127.0.0.1]:8000', '[::FFFF:7f00:1]', '[0:0:0:0:0:0:0:1]:80'])(
  'an IPv6 address in Host may be written as %s',
  async (written) => {
    const request = `GET /v1/models HTTP/1.1\r\n${close}Host: ${written}\r\n\r\n`;
    expect(await answerTo(request)).toMatch(/^HTTP\/1.1 200 /);
  },
);

it('an error is never written into the answer to an earlier request', async () => {
  let stalled = false;
  stub.pace = () => {
    if (stub.tokens === 0) return Promise.resolve();
    stalled = true;
    return new Promise(() => {});
  };
  const { socket, got } = open();
  const ask = JSON.stringify({ prompt: [1], max_tokens: 2, stream: true });
  socket.write(
    `POST /v1/completions HTTP/1.1\r\n${host}Content-Type: application/json\r\nContent-Length: ${ask.length}\r\n\r\n${ask}`,
  );
  await expect.poll(() => stalled && got.text.includes('data: ')).toBe(true);
  socket.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nNOT HTTP\r\n\r\n');
  await once(socket, 'close');
  expect(got.text).not.toContain('"error"');
  await expect.poll(() => stub.aborted).toBe(1);
});
