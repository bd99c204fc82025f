/** A Redis or Valkey server by the `redis` client. One connection, made when it is first needed and whenever it was lost. */
import { createClient, ErrorReply, RESP_TYPES } from '@redis/client';
import type { ListedServer } from '../types.ts';
import { saidByServer, usable } from './redis-error.ts';

const clientFor = (url: string) =>
  createClient({
    url,
    // Servers older than Redis 6 speak no other.
    RESP: 2,
    // Whoever asks waits, tries again and says so: here nothing is kept for later.
    disableOfflineQueue: true,
    disableClientInfo: true,
    maintNotifications: 'disabled',
    socket: { reconnectStrategy: false },
    commandOptions: { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } },
  });
type Client = ReturnType<typeof clientFor>;

/** Keys that a server goes through at once. */
const SCAN_COUNT = 1_000;

/** `url`: one that was checked (src/config/store-url.ts); `location`: the same for messages. Of what fails a line is told. */
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
      // Commands reject with it; unheard it would end the thread.
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
          // In one go: who asks for the length first asks twice. Without a value it is empty, and of an empty one too.
          const value = await client.getRange(key, 0, most);
          return value?.length || (await client.exists(key)) === 1 ? value : null;
        } catch (error) {
          if (isOfAnotherType(error)) return { wrong: 'it is no string' };
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
          if (error instanceof ErrorReply) return saidByServer(error.message, url);
          throw error;
        }
      }),

    async remove(keys) {
      // Without any it is a wrong command.
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

/** Of a pattern. */
const literal = (text: string): string => text.replace(/[\\*?[\]^]/g, '\\$&');
