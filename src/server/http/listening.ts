/** Opens ports, and closes them so that every waiting client gets a response. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import type { Hono } from 'hono';
import { systemClock } from '../../platform/clock.ts';
import { inTime } from '../../transport/deadlines.ts';
import type { Admission } from './admission.ts';
import { answerInvalidRequests, asInUrl, SERVER_OPTIONS, unreadable, withHost } from './invalid-requests.ts';
import { cannotListen } from './ports.ts';
import { dropRefusedUploads } from './refused-uploads.ts';
import { endSlowReaders } from './slow-readers.ts';
import { endWithConnection } from './waiting-responses.ts';

export interface OpenPort {
  server: Server;
  admission: Admission;
  /** It is the operator's, whose requests are not waited for. */
  operator: boolean;
}

export function urlOf(host: string, server: Server): string {
  const { port } = server.address() as AddressInfo;
  return `http://${inUrl(host)}:${port}`;
}

const inUrl = (host: string): string => asInUrl(host.includes(':') ? `[${host}]` : host);

/** Node's default of 5 s would close connections that a busy client is about to reuse. */
const KEEP_ALIVE_MS = 75_000;

export interface Listening {
  host: string;
  /** 0: any free port. */
  port: number;
  /** Milliseconds after which a connection ends if its client reads none of the waiting bytes. */
  writeTimeoutMs: number;
}

/** Resolves when the port is open. Rejects with ConfigError. */
export function listenOn(
  app: Pick<Hono, 'fetch'>,
  { host, port, writeTimeoutMs }: Listening,
): Promise<Server> {
  return new Promise((resolve, reject) => {
    const answer = getRequestListener(app.fetch, {
      hostname: inUrl(host),
      errorHandler: unreadable,
      // Would close the connection of a refused upload before its client has read the error.
      autoCleanupIncoming: false,
    });
    const server = createServer(SERVER_OPTIONS, withHost(answer));
    server.keepAliveTimeout = KEEP_ALIVE_MS;
    dropRefusedUploads(server);
    endSlowReaders(server, writeTimeoutMs);
    answerInvalidRequests(server, endWithConnection(server));
    server.once('error', (error: NodeJS.ErrnoException) => reject(cannotListen(host, port, error)));
    server.listen(port, host, () => resolve(server));
  });
}

/** Milliseconds that aborted requests get to send their errors. */
export const FAREWELL_MS = 1000;

/** Waits up to `graceMs` for the requests in progress, then aborts them. `why`: what their clients are told. */
export async function closePorts(ports: readonly OpenPort[], graceMs: number, why: string): Promise<void> {
  for (const { server } of ports) {
    server.close();
    server.closeIdleConnections();
  }
  const clients = ports.filter(({ operator }) => !operator);
  const idle = Promise.all(clients.map(({ admission }) => admission.close(why)));
  await inTime(idle, graceMs, systemClock, () => {
    for (const { admission } of clients) admission.abortAll(why);
    return inTime(idle, FAREWELL_MS, systemClock, () => {});
  });
  for (const { admission } of ports) admission.abortAll(why);
  // The last bytes must leave before their connections are closed.
  await new Promise((resolve) => setTimeout(resolve, 20));
  for (const { server } of ports) server.closeAllConnections();
}
