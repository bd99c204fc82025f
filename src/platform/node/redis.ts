/**
 * A Redis or Valkey server through the `redis` client. One connection, opened on first use and again after it is lost.
 */
import { createClient, ErrorReply, RESP_TYPES } from '@redis/client';
import type { ListedServer } from '../types.ts';
import { serverMessage, usable } from './redis-error.ts';

const clientFor = (url: string) =>
  createClient({
    url,
    // Servers older than Redis 6 support only RESP 2.
    RESP: 2,
    // Callers wait, retry and report themselves, so nothing is queued here.
    disableOfflineQueue: true,
    disableClientInfo: true,
    maintNotifications: 'disabled',
    socket: { reconnectStrategy: false },
    commandOptions: { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } },
  });
type Client = ReturnType<typeof clientFor>;

/** Keys that the server examines per SCAN call. */
const SCAN_COUNT = 1_000;

/**
 * `url`: already validated (src/config/store-url.ts). `location`: the URL without its password, for messages. Errors
 * carry one readable line.
 */
export function redisServer(url: string, location: string): ListedServer {
  let current: { client: Client; ready: Promise<unknown> } | null = null;

  const drop = (): void => {
    if (current?.client.isOpen) current.client.destroy();
    current = null;
  };

  async function connected(): Promise<Client> {
    if (current && !current.client.isOpen) drop();
    if (!current) {
      const client = clientFor(url);
      // Commands reject with the same error. Without a listener it would end the thread.
      client.on('error', () => {});
      current = { client, ready: client.connect() };
    }
    const { client, ready } = current;
    await ready.catch((error: unknown) => {
      if (current?.client === client) drop();
      throw error;
    });
    return client;
  }

  async function ask<T>(question: (client: Client) => Promise<T>): Promise<T> {
    try {
      return await question(await connected());
    } catch (error) {
      throw usable(error as Error, url, location);
    }
  }

  return {
    location,

    has: (keys) => ask((client) => Promise.all(keys.map(async (key) => (await client.exists(key)) === 1))),

    get: (key, most) =>
      ask(async (client) => {
        try {
          // GETRANGE reads value and length in one request. It returns an empty value for a missing key and for an
          // empty value, which EXISTS tells apart.
          const value = await client.getRange(key, 0, most);
          return value?.length || (await client.exists(key)) === 1 ? value : null;
        } catch (error) {
          if (isOfAnotherType(error)) return { wrong: 'it is not a string' };
          throw error;
        }
      }),

    set: (key, value, ttlMs) =>
      ask(async (client) => {
        const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
        try {
          await client.set(key, bytes, ttlMs === null ? {} : { expiration: { type: 'PX', value: ttlMs } });
          return null;
        } catch (error) {
          if (error instanceof ErrorReply) return serverMessage(error.message, url);
          throw error;
        }
      }),

    async remove(keys) {
      // UNLINK without keys is an error.
      if (keys.length > 0) await ask((client) => client.unlink([...keys]));
    },

    async *scan(prefix) {
      for (let cursor = '0', begun = false; !begun || cursor !== '0'; begun = true) {
        const { next, found } = await ask(async (client) => {
          const reply = await client.scan(cursor, { MATCH: `${literal(prefix)}*`, COUNT: SCAN_COUNT });
          const lengths = reply.keys.map(async (name) => ({
            key: String(name),
            bytes: await client.strLen(name).catch((error: unknown) => {
              if (isOfAnotherType(error)) return null;
              throw error;
            }),
          }));
          return { next: String(reply.cursor), found: await Promise.all(lengths) };
        });
        cursor = next;
        yield found;
      }
    },

    drop,
  };
}

const isOfAnotherType = (error: unknown): boolean =>
  error instanceof ErrorReply && error.message.startsWith('WRONGTYPE');

/** Escapes a glob pattern's special characters. */
const literal = (text: string): string => text.replace(/[\\*?[\]^]/g, '\\$&');
