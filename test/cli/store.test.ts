import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { main } from '../../src/cli/app.ts';
import { directoryFolder } from '../../src/platform/node/store-folder.ts';
import { FolderTier } from '../../src/store/folder-tier.ts';
import { TestClock } from '../clock.ts';
import { fakeWorld } from './fake.ts';

async function runCli(argv: readonly string[]) {
  const world = fakeWorld();
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

it('lists, checks and clears a folder', async () => {
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

it('names a broken block, and fails', async () => {
  const file = path.join(directory, 'blocks', 'a'.repeat(64), '22', `${'2'.repeat(64)}.kv`);
  await writeFile(file, (await readFile(file)).fill(9, 100));
  const { code, stdout } = await runCli(['store', 'verify', directory]);
  expect(code).toBe(1);
  expect(stdout).toMatch(/2222\.kv: its KV's checksum differs\n2 blocks of 3 whole; the others/);
});

it.each([
  [['store'], /wanted ls DIR, verify DIR or clear DIR|wanted/],
  [['store', 'wipe', 'x'], /there is no 'store wipe': wanted ls DIR, verify DIR or clear DIR/],
  [['store', 'ls'], /store ls has no folder/],
  [['store', 'clear', tmpdir()], /is no store of kvferry's|cannot be read/],
  [['store', 'ls', '/nowhere/at/all'], /there is no folder \/nowhere\/at\/all: give one that a store made/],
])('%j is refused', async (argv, message) => {
  const { code, stderr } = await runCli(argv);
  expect(code).toBe(2);
  expect(stderr).toMatch(message);
});
