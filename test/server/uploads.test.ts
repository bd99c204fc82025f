/** Over sockets: an upload is refused before it has arrived, and its connection goes on. */
import { once } from 'node:events';
import type { Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { listenOn } from '../../src/server/http/listening.ts';
import { StubService } from './stub.ts';
import { CHAT, stubApp } from './stub-app.ts';

let server: Server;
beforeEach(async () => {
  const app = stubApp(new StubService(), { apiKey: 'secret' });
  server = await listenOn(app, { host: '127.0.0.1', port: 0, writeTimeoutMs: 60_000 });
});
afterEach(() => {
  server.closeAllConnections();
  server.close();
});

const MIB = 2 ** 20;
const json = 'Content-Type: application/json\r\n';
const key = 'Authorization: Bearer secret\r\n';
const next = 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n';

/** Longer than the adapter waits for the rest of a body before it closes the connection. */
const SLOW_MS = 800;

describe('a refused upload', () => {
  it.each([
    ['401', CHAT, json, 'Content-Length: 20\r\n'],
    ['404', '/v1/nothing', json + key, 'Content-Length: 20\r\n'],
    ['415', CHAT, key, 'Content-Length: 20\r\n'],
    ['413', CHAT, json + key, `Content-Length: ${8 * MIB}\r\n`],
    ['413', CHAT, json + key, 'Transfer-Encoding: chunked\r\n'],
  ])('has its %s read, and the next request answered: %s %j %j', async (status, path, headers, length) => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').setEncoding('utf8');
    let got = '';
    socket.on('data', (text: string) => {
      got += text;
    });
    const closed = once(socket, 'close');
    const chunked = length.startsWith('Transfer');
    const size = Number(/\d+/.exec(length)?.[0] ?? 8 * MIB);
    socket.write(`POST ${path} HTTP/1.1\r\nHost: localhost\r\n${headers}${length}\r\n`);
    // Chunked: the length shows only as the body arrives.
    const early = chunked ? MIB : 0;
    if (chunked) socket.write(`${size.toString(16)}\r\n${' '.repeat(early)}`);
    await expect.poll(() => got).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    await new Promise((resolve) => setTimeout(resolve, SLOW_MS));
    socket.write(' '.repeat(size - early) + (chunked ? '\r\n0\r\n\r\n' : ''));
    socket.write(next);
    await expect.poll(() => got, { timeout: 5000 }).toContain('HTTP/1.1 200 OK');
    socket.destroy();
    await closed;
  });
});
