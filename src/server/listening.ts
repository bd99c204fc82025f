/** Ports: opened, and closed without leaving anyone waiting. */
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serve as listen } from '@hono/node-server';
import type { Hono } from 'hono';
import { systemClock } from '../platform/clock.ts';
import { inTime } from '../transport/deadlines.ts';
import type { Admission } from './admission.ts';
import { cannotListen } from './ports.ts';
import { endSlowReaders } from './slow-readers.ts';
import { endWithConnection } from './waiting-responses.ts';

export interface OpenPort {
  server: Server;
  /** null: its requests are no client's, and nobody waits for them. */
  admission: Admission | null;
}

export function urlOf(host: string, server: Server): string {
  const { port } = server.address() as AddressInfo;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** Node's 5 s would end connections that a busy client is just about to use again. */
const KEEP_ALIVE_MS = 75_000;

export interface Listening {
  host: string;
  /** 0: any free one. */
  port: number;
  /** How long a client may take nothing of what waits for it. */
  writeTimeoutMs: number;
}

/** Rejects with ConfigError. */
export function listenOn(
  app: Pick<Hono, 'fetch'>,
  { host, port, writeTimeoutMs }: Listening,
): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = listen({ fetch: app.fetch, hostname: host, port }) as Server;
    server.keepAliveTimeout = KEEP_ALIVE_MS;
    endSlowReaders(server, writeTimeoutMs);
    endWithConnection(server);
    server.once('error', (error: NodeJS.ErrnoException) => reject(cannotListen(host, port, error)));
    server.once('listening', () => resolve(server));
  });
}

/** How long ended requests have to tell their clients. */
export const FAREWELL_MS = 1000;

export async function closePorts(ports: readonly OpenPort[], graceMs: number): Promise<void> {
  for (const { server } of ports) {
    server.close();
    server.closeIdleConnections();
  }
  const idle = Promise.all(ports.map(({ admission }) => admission?.close()));
  await inTime(idle, graceMs, systemClock, () => {
    for (const { admission } of ports) admission?.abortAll();
    return inTime(idle, FAREWELL_MS, systemClock, () => {});
  });
  // What was said last must leave before its connection does.
  await new Promise((resolve) => setTimeout(resolve, 20));
  for (const { server } of ports) server.closeAllConnections();
}
