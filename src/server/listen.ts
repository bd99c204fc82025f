/** A port that is listened on: how long a connection may stay, and what ends it. */
import type { Server } from 'node:http';
import { serve } from '@hono/node-server';
import type { Hono } from 'hono';
import { cannotListen } from './ports.ts';
import { endSlowReaders } from './slow-readers.ts';

export interface Listening {
  host: string;
  /** 0: any free one. */
  port: number;
  /** How long a client may take nothing of what waits for it. */
  writeTimeoutMs: number;
}

/** Node's 5 s would end connections that a busy client is just about to use again. */
const KEEP_ALIVE_MS = 75_000;

/** Rejects with ConfigError. */
export function listenOn(app: Hono, { host, port, writeTimeoutMs }: Listening): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = serve({ fetch: app.fetch, hostname: host, port }) as Server;
    server.keepAliveTimeout = KEEP_ALIVE_MS;
    endSlowReaders(server, writeTimeoutMs);
    server.once('error', (error: NodeJS.ErrnoException) => reject(cannotListen(host, port, error)));
    server.once('listening', () => resolve(server));
  });
}
