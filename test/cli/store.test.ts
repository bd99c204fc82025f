import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createClient } from '@redis/client';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { main } from '../../src/cli/app.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { redisServer } from '../../src/platform/node/redis.ts';
import { directoryFolder } from '../../src/platform/node/store-folder.ts';
import { FolderTier } from '../../src/store/folder-tier.ts';
import { ServerTier } from '../../src/store/server-tier.ts';
import { TestClock } from '../clock.ts';
import { REDIS, RedisServer, WITHOUT_REDIS } from '../store/redis-server.ts';
import { fakeWorld, widest } from './fake.ts';

async function runCli(argv: readonly string[]) {
  const world = fakeWorld();
  world.deps.sleep = systemClock.sleep;
  const code = await main(argv, world.deps);
  return { code, stdout: world.out(), stderr: world.err() };
}

let directory: string;
beforeEach(async () => {
  directory = path.join(await mkdtemp(path.join(tmpdir(), 'kvferry-store-')), 'kv');
  const options = { namespace: 'a'.repeat(64), blockBytes: 64, quotaBytes: 1e6, ttlMs: null, onTrouble() {} };
  const clock = new TestClock();
  const tier = await FolderTier.open({ ...options, folder: directoryFolder(directory), clock });
  for (const digit of '123') tier.write(digit.repeat(64), [new Uint8Array(64)]);
  await tier.flush();
});
afterEach(() => rm(path.dirname(directory), { recursive: true, force: true }));

it('kvferry store lists, verifies and clears a folder', async () => {
  const { stdout } = await runCli(['store', 'ls', directory, '--json']);
  expect(JSON.parse(stdout).namespaces).toMatchObject([
    { namespace: 'a'.repeat(64), blocks: 3, bytes: 3 * 160 },
  ]);
  expect((await runCli(['store', 'ls', directory])).stdout).toMatch(/aaaaaaaaaaaa +3 +480 bytes/);
  expect(await runCli(['store', 'verify', directory])).toMatchObject({
    code: 0,
    stdout: '3 blocks of 3 whole.\n',
  });
  expect((await runCli(['store', 'clear', directory])).stdout).toBe('removed 3 blocks, 480 bytes\n');
  expect((await runCli(['store', 'ls', directory])).stdout).toMatch(/empty/);
});

it('kvferry store stops between two blocks on Ctrl-C, and says what is left', async () => {
  const of = async (what: 'verify' | 'clear', act: 'read' | 'remove') => {
    const world = fakeWorld();
    let blocks = 0;
    world.deps.storeFolder = (place) => {
      const folder = directoryFolder(place);
      const acting = (name: string) => {
        if (++blocks === 1) world.interrupt();
        return folder[act](name);
      };
      return { ...folder, [act]: acting };
    };
    expect(await main(['store', what, directory], world.deps)).toBe(130);
    expect(world.out()).toBe('');
    return { blocks, said: world.err() };
  };
  expect(await of('verify', 'read')).toMatchObject({
    said: expect.stringContaining('No result: not every block was read'),
  });
  expect(await of('clear', 'remove')).toMatchObject({
    blocks: 1,
    said: expect.stringContaining('Not all blocks were removed: run it again to remove the rest.'),
  });
  expect((await runCli(['store', 'verify', directory])).stdout).toBe('2 blocks of 2 whole.\n');
});

it('kvferry store verify names a broken block and fails', async () => {
  const file = path.join(directory, 'blocks', 'a'.repeat(64), '22', `${'2'.repeat(64)}.kv`);
  await writeFile(file, (await readFile(file)).fill(9, 100));
  const { code, stdout } = await runCli(['store', 'verify', directory]);
  expect(code).toBe(1);
  expect(stdout).toMatch(/^a{12} +2{12} +its KV's checksum differs\n2 blocks of 3 whole; the others/m);
  expect(widest(stdout)).toBeLessThanOrEqual(80);
  const { broken } = JSON.parse((await runCli(['store', 'verify', directory, '--json'])).stdout);
  expect(broken).toEqual([{ file: path.relative(directory, file), why: "its KV's checksum differs" }]);
});

it('kvferry store says in a sentence what cannot be read or removed', async () => {
  const world = fakeWorld();
  const { storeFolder } = world.deps;
  const fail = async () => {
    throw new Error('EROFS: read-only file system');
  };
  const read = (name: string) => (name.endsWith('.kv') ? fail() : storeFolder(directory).read(name));
  world.deps.storeFolder = (where) => ({ ...storeFolder(where), read, remove: fail });
  expect(await main(['store', 'clear', directory], world.deps)).toBe(2);
  expect(world.err()).toContain(
    `kvferry: ${directory} cannot be cleared, after 0 of 3 blocks: EROFS: read-only file system\n`,
  );
  expect(await main(['store', 'verify', directory], world.deps)).toBe(1);
  expect(world.out()).toMatch(/1111 {2}EROFS: read-only[\s\S]*\n0 blocks of 3 whole; /);
});

describe.skipIf(REDIS === null)(`a server${WITHOUT_REDIS}`, () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await RedisServer.start('--requirepass', 'secret');
  });
  afterAll(() => redis?.kill());

  it("is listed, verified and cleared as a folder is, and keys that are not kvferry's stay", async () => {
    const url = redis.url.replace('//', '//:secret@');
    const location = redis.url;
    const client = await createClient({ url }).connect();
    const keyOf = (namespace: string, hash: string) => `kvferry:1:${namespace.repeat(64)}:${hash.repeat(64)}`;
    const others = ['kvferry:2:x', `${keyOf('a', '1')}:more`, 'kvferry:1:*', 'somebody'];
    for (const key of others) await client.set(key, 'theirs');
    expect((await runCli(['store', 'ls', url])).stdout).toBe(`${location} has no blocks.\n`);
    for (const [namespace, hashes] of [
      ['a', '123'],
      ['b', '4'],
    ] as const) {
      const options = {
        ...{ namespace: namespace.repeat(64), blockBytes: 64, ttlMs: null },
        onTrouble() {},
      };
      const tier = await ServerTier.open({
        ...{ ...options, server: redisServer(url, location), clock: systemClock },
      });
      for (const digit of hashes) tier.write(digit.repeat(64), [new Uint8Array(64)]);
      await tier.flush();
      tier.close();
    }
    const { stdout } = await runCli(['store', 'ls', url, '--json']);
    expect(JSON.parse(stdout)).toEqual({
      server: location,
      namespaces: [
        { namespace: 'a'.repeat(64), blocks: 3, bytes: 480 },
        { namespace: 'b'.repeat(64), blocks: 1, bytes: 160 },
      ],
    });
    expect((await runCli(['store', 'ls', url])).stdout).toMatch(/aaaaaaaaaaaa +3 +480 bytes\n/);
    const whole = { code: 0, stdout: '4 blocks of 4 whole.\n' };
    expect(await runCli(['store', 'verify', url])).toMatchObject(whole);
    await client.setRange(keyOf('a', '2'), 120, 'damaged');
    await client.del(keyOf('a', '3'));
    await client.lPush(keyOf('a', '3'), 'an item');
    const broken = await runCli(['store', 'verify', url]);
    expect(broken.code).toBe(1);
    expect(broken.stdout).toMatch(/ 2{12} +its KV's checksum differs$/m);
    expect(broken.stdout).toMatch(/ 3{12} +it is not a string$/m);
    expect(broken.stdout).toMatch(/2 blocks of 4 whole; the others/);
    expect((await runCli(['store', 'clear', url])).stdout).toBe('removed 4 blocks, 480 bytes\n');
    expect((await client.keys('*')).toSorted()).toEqual(others.toSorted());
    // Keys that the server listed together are removed together.
    expect(String(await client.info('commandstats'))).toMatch(/cmdstat_unlink:calls=1,/);
    await client.close();
  });

  it('that refuses or is unavailable causes an error that names it without its password', async () => {
    const wrong = await runCli(['store', 'ls', redis.url.replace('//', '//:wr0ng@')]);
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toMatch(
      /^kvferry: the store's server redis:\/\/127.* refuses the connection: WRONGPASS/,
    );
    expect(wrong.stderr).not.toContain('wr0ng');
    const nobody = await runCli(['store', 'verify', 'redis://:hidden@127.0.0.1:1']);
    expect(nobody.code).toBe(1);
    expect(nobody.stderr).toMatch(
      /redis:\/\/127.0.0.1:1 is unavailable \(.*ECONNREFUSED.*\): wanted a Redis or Valkey server; start it, or/,
    );
    expect(nobody.stderr).not.toContain('hidden');
    redis.hang();
    const world = fakeWorld();
    world.deps.sleep = async () => {};
    expect(await main(['store', 'ls', redis.url], world.deps)).toBe(1);
    expect(world.err()).toMatch(/is unavailable \(no answer within 10 s\): wanted/);
    redis.goOn();
  });
});

it.each([
  [['store', 'ls', 'http://:secret@cache'], /the URL http:\/\/cache begins with http:\/\/: wanted redis/],
  [['store', 'clear', 'redis://:secret@'], /the URL redis:\/\/ (is not a URL|names no host)/],
  [['store'], /kvferry: store has no action: wanted ls DIR, verify DIR, clear DIR, or a redis/],
  [['store', 'wipe', 'x'], /there is no 'store wipe': wanted ls DIR, verify DIR/],
  [['store', 'ls'], /store ls has no folder/],
  [['store', 'clear', tmpdir()], /is not a kvferry store|cannot be read/],
  [
    ['store', 'ls', '/nowhere/at/all'],
    /there is no folder \/nowhere\/at\/all: give one that a store created/,
  ],
])('%j is refused', async (argv, message) => {
  const { code, stderr } = await runCli(argv);
  expect(code).toBe(2);
  expect(stderr).toMatch(message);
});
