/** A Redis or Valkey server by the `redis` client. One connection, made when it is first needed and whenever it was lost. */
import { createClient, ErrorReply, RESP_TYPES } from '@redis/client';
import { ConfigError } from '../../errors.ts';
import type { KeyValueServer } from '../types.ts';

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

/** `url`: one that was checked (src/config/store-url.ts); `location`: the same for messages. */
export function redisServer(url: string, location: string): KeyValueServer {
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

  return {
    location,

    async has(keys) {
      try {
        const client = await connected();
        return await Promise.all(keys.map(async (key) => (await client.exists(key)) === 1));
      } catch (error) {
        throw usable(error as Error, location);
      }
    },

    async get(key) {
      return (await connected()).get(key);
    },

    async set(key, value, ttlMs) {
      const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
      const client = await connected();
      try {
        await client.set(key, bytes, ttlMs === null ? {} : { expiration: { type: 'PX', value: ttlMs } });
        return null;
      } catch (error) {
        if (error instanceof ErrorReply) return error.message;
        throw error;
      }
    },

    async remove(key) {
      await (await connected()).del(key);
    },

    drop,
  };
}

/** What waiting will not mend is the user's to mend. */
function usable(error: Error & { code?: string }, location: string): Error {
  if (error.code === 'ENOTFOUND')
    return new ConfigError(`there is no host for the store's server ${location}: ${error.message}`);
  if (error instanceof ErrorReply && /^(WRONGPASS|NOAUTH|NOPERM|ERR (invalid|DB|AUTH))/.test(error.message))
    return new ConfigError(`the store's server ${location} refuses the connection: ${error.message}`);
  return error;
}
