/** A server tier on a real redis-server, which is killed, restarted, suspended and filled up. */
import { createClient } from '@redis/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/platform/clock.ts';
import { redisServer } from '../../src/platform/node/redis.ts';
import { ServerTier, type ServerTierOptions } from '../../src/store/server-tier.ts';
import { REDIS, RedisServer, WITHOUT_REDIS } from './redis-server.ts';

const BLOCK = 4096;
const hash = (n: number): string => n.toString(16).padStart(64, '0');
const kv = (n: number): Uint8Array => new Uint8Array(BLOCK).map((_, i) => (n * 31 + i) % 251);

/** The system clock, `times` slower, plus skippedMs, so that a test need not wait while nothing happens. */
let skippedMs = 0;
const slowedBy = (times: number) => ({
  now: () => systemClock.now() / times + skippedMs,
  sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms * times, signal),
});
/** Slowed because a working server may exceed its time limit of a second on a busy machine. */
const clock = slowedBy(30);

const tiers: ServerTier[] = [];
async function open(url: string, changes: Partial<ServerTierOptions> = {}) {
  const troubles: string[] = [];
  const tier = await ServerTier.open({
    ...{ server: redisServer(url, 'redis'), namespace: hash(0xabc), blockBytes: BLOCK, ttlMs: null, clock },
    onTrouble: (message) => troubles.push(message),
    ...changes,
  });
  tiers.push(tier);
  return { tier, troubles };
}

async function stored(tier: ServerTier, ...numbers: number[]): Promise<void> {
  for (const n of numbers) tier.write(hash(n), [kv(n).subarray(0, 1024), kv(n).subarray(1024)]);
  await tier.flush();
}

async function found(tier: ServerTier, ...numbers: number[]): Promise<(number | null)[]> {
  const there = await tier.find(numbers.map(hash));
  return Promise.all(
    numbers.map(async (n) => {
      const into = new Uint8Array(BLOCK);
      const parts = [into.subarray(0, 1024), into.subarray(1024)];
      const came = there.has(hash(n)) && (await tier.read(hash(n), parts));
      // Not expect(): time spent here counts against the server's time limit.
      if (came && Buffer.compare(into, kv(n)) !== 0) throw new Error(`block ${n} came as another`);
      return came ? n : null;
    }),
  );
}

describe.skipIf(REDIS === null)(`a Redis tier${WITHOUT_REDIS}`, () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await RedisServer.start();
  });
  afterAll(async () => {
    for (const tier of tiers) tier.close();
    await redis?.kill();
  });

  it('returns the blocks that were written, also to another store, and sets their TTL', async () => {
    const client = await createClient({ url: redis.url }).connect();
    // What other tests left.
    await client.flushAll();
    const one = await open(redis.url, { ttlMs: 60_000 });
    const numbers = Array.from({ length: 60 }, (_, n) => n);
    await stored(one.tier, ...numbers);
    const other = await open(`${redis.url}/0`);
    expect([one.troubles, one.tier.counters]).toMatchObject([[], { written: 60, leftOut: 0, outages: 0 }]);
    expect(await found(other.tier, ...numbers, 1000)).toEqual([...numbers, null]);
    expect(await found((await open(`${redis.url}/1`)).tier, 1)).toEqual([null]);
    expect([...one.troubles, ...other.troubles]).toEqual([]);
    const keys = await client.keys('*');
    expect(keys).toHaveLength(60);
    expect(await client.pTTL(keys[0]!)).toBeGreaterThan(30_000);
    // Replaces one by a value that is not a block.
    await client.set(keys[0]!, 'nothing of ours');
    await client.close();
    expect((await found(other.tier, ...numbers)).filter((n) => n === null)).toHaveLength(1);
    expect(other.tier.counters).toMatchObject({ broken: 1, foreign: 0, outages: 0 });
  });

  it('treats an empty value as a broken block, not as an absent one', async () => {
    const { tier, troubles } = await open(redis.url);
    await stored(tier, 80);
    const client = await createClient({ url: redis.url }).connect();
    const [key] = await client.keys(`*${hash(80)}`);
    await client.set(key!, '');
    expect(await found(tier, 80)).toEqual([null]);
    expect(tier.counters).toMatchObject({ foreign: 0, broken: 1, outages: 0 });
    expect(troubles).toEqual([expect.stringMatching(/it has 0 bytes, fewer than a header$/)]);
    expect(await client.exists(key!)).toBe(0);
    await client.close();
  });

  it("reads no more than a block's bytes of a foreign value, and takes another type for no outage", async () => {
    const { tier, troubles } = await open(redis.url);
    await stored(tier, 70, 71, 72);
    const client = await createClient({ url: redis.url }).connect();
    const keys = await client.keys(`*${hash(70)}`);
    await client.set(keys[0]!, 'x'.repeat(2 ** 24));
    const list = keys[0]!.replace(hash(70), hash(71));
    await client.del(list);
    await client.lPush(list, 'an item');
    const sent = async () => Number(/total_net_output_bytes:(\d+)/.exec(await client.info('stats'))![1]);
    const before = await sent();
    expect(await found(tier, 70, 71, 72)).toEqual([null, null, 72]);
    expect((await sent()) - before).toBeLessThan(2 ** 16);
    expect(tier.counters).toMatchObject({ foreign: 2, broken: 0, outages: 0 });
    expect(troubles).toEqual([expect.stringMatching(/longer than a block's 4192 bytes|it is not a string/)]);
    expect(await client.exists([keys[0]!, list])).toBe(0);
    await client.close();
  });

  it('has only misses as soon as the server is killed, and serves again after a restart', async () => {
    const { tier, troubles } = await open(redis.url);
    await stored(tier, 1);
    await redis.kill();
    expect(await found(tier, 1)).toEqual([null]);
    expect(troubles).toEqual([expect.stringContaining('redis is unavailable')]);
    await stored(tier, 2);
    await redis.start();
    skippedMs += 10_000;
    expect(await found(tier, 1, 2)).toEqual([null, null]);
    await stored(tier, 3);
    expect(await found(tier, 3)).toEqual([3]);
    expect(troubles.slice(1)).toEqual(['redis answers again']);
  });

  it('waits a second once per outage of a server that hangs, and serves again when it resumes', async () => {
    const { tier, troubles } = await open(redis.url, { clock: slowedBy(1) });
    await stored(tier, 5);
    redis.hang();
    try {
      expect(await found(tier, 5)).toEqual([null]);
      expect(await found(tier, 5)).toEqual([null]);
      expect(tier.counters.outages).toBe(1);
      skippedMs += 10_000;
      // A new connection behaves the same.
      expect(await found(tier, 5)).toEqual([null]);
      expect(tier.counters.outages).toBe(2);
      expect(troubles).toEqual([expect.stringContaining('no answer within 1 s')]);
      const late = await open(redis.url, { clock: slowedBy(1) });
      expect(late.troubles).toHaveLength(1);
    } finally {
      redis.goOn();
    }
    skippedMs += 10_000;
    expect(await found(tier, 5)).toEqual([5]);
  });

  it('reads from a full server, and does not open with a wrong password, database or host name', async () => {
    const other = await RedisServer.start('--requirepass', 'right');
    try {
      const url = other.url.replace('//', '//:right@');
      const { tier, troubles } = await open(url);
      await stored(tier, 1);
      const client = await createClient({ url }).connect();
      await client.configSet('maxmemory', '1');
      await stored(tier, 2);
      expect(await found(tier, 1, 2)).toEqual([1, null]);
      expect(troubles).toEqual([expect.stringMatching(/redis does not take blocks \(OOM/)]);
      await client.close();
      await expect(open(other.url)).rejects.toThrow(/redis refuses the connection: NOAUTH/);
      await expect(open(url.replace('right', 'wrong'))).rejects.toThrow(/WRONGPASS/);
      await expect(open(`${url}/99`)).rejects.toThrow(/refuses the connection: ERR.*DB index/);
    } finally {
      await other.kill();
    }
    await expect(open('redis://no.such.host.invalid')).rejects.toThrow(
      /the host of the store's server .* does not exist/,
    );
  });
});
