/** A store's folder: blocks are read back, also by another process; damaged, foreign and missing ones are misses. */
import { spawn } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { directoryFolder } from '../../src/platform/node/store-folder.ts';
import type { StoreFolder } from '../../src/platform/types.ts';
import { FORMAT_VERSION, HEAD_BYTES, namespaceOf } from '../../src/store/block-file.ts';
import { MARKER } from '../../src/store/folder-names.ts';
import { FolderTier, type FolderTierOptions } from '../../src/store/folder-tier.ts';
import { listFolder } from '../../src/store/inspect-folder.ts';
import { checksumInOneRow } from '../../src/transport/checksum.ts';
import { TestClock } from '../clock.ts';

const BLOCK = 64;
const hash = (n: number): string => n.toString(16).padStart(64, '0');
const NAMESPACE = hash(0xabc);
const kv = (n: number): Uint8Array => new Uint8Array(BLOCK).fill(n % 251);

let directory: string;
beforeEach(async () => {
  directory = path.join(await mkdtemp(path.join(tmpdir(), 'kvferry-store-')), 'kv');
});
afterEach(() => rm(path.dirname(directory), { recursive: true, force: true }));

const troubles: string[] = [];
async function open(changes: Partial<FolderTierOptions> = {}): Promise<FolderTier> {
  troubles.length = 0;
  return FolderTier.open({
    folder: directoryFolder(directory),
    namespace: NAMESPACE,
    blockBytes: BLOCK,
    quotaBytes: 2 ** 20,
    ttlMs: null,
    clock: new TestClock(Date.now()),
    onTrouble: (message) => troubles.push(message),
    ...changes,
  });
}

async function stored(tier: FolderTier, ...numbers: number[]): Promise<void> {
  for (const n of numbers) tier.write(hash(n), [kv(n)]);
  await tier.flush();
}

/** Reads the blocks and checks their contents; null for those that are not found. */
async function found(tier: FolderTier, ...numbers: number[]): Promise<(number | null)[]> {
  const all = [];
  for (const n of numbers) {
    const into = new Uint8Array(BLOCK);
    const came = tier.has(hash(n)) && (await tier.read(hash(n), [into]));
    if (came) expect(into).toEqual(kv(n));
    all.push(came ? n : null);
  }
  return all;
}

const fileOfBlock = (n: number): string =>
  path.join(directory, 'blocks', NAMESPACE, hash(n).slice(0, 2), `${hash(n)}.kv`);

describe('a folder tier', () => {
  it('returns the blocks that were written, also when it is opened again', async () => {
    await stored(await open(), 1, 2, 3);
    const again = await open();
    expect(again.blocks).toBe(3);
    expect(await found(again, 1, 2, 3, 4)).toEqual([1, 2, 3, null]);
  });

  it("creates a folder for its user alone, and leaves another's permissions as they are", async () => {
    const others = async () => (await stat(directory)).mode & 0o077;
    await stored(await open(), 1);
    expect(await others()).toBe(0);
    await rm(directory, { recursive: true });
    await mkdir(directory);
    await chmod(directory, 0o755);
    await stored(await open(), 1);
    expect(await others()).toBe(0o055);
  });

  it('returns blocks that are still being written', async () => {
    const tier = await open();
    for (let n = 0; n < 20; n++) tier.write(hash(n), [kv(n)]);
    expect(await found(tier, 0, 5, 19)).toEqual([0, 5, 19]);
    await tier.flush();
    expect(tier.counters).toMatchObject({ written: 20, leftOut: 0 });
  });

  it('keeps within its quota by removing the least recently used blocks', async () => {
    const tier = await open({ quotaBytes: 3 * (BLOCK + HEAD_BYTES) });
    await stored(tier, 1, 2, 3);
    await found(tier, 1);
    for (let n = 4; n < 200; n++) await stored(tier, n);
    expect(tier.blocks).toBe(3);
    const files = (await directoryFolder(directory).list()).filter(({ name }) => name !== MARKER);
    expect(files.length).toBe(3);
    expect(await found(tier, 197, 198, 199, 1)).toEqual([197, 198, 199, null]);
  });

  it('counts its quota in bytes, so it holds more blocks if those of another group are smaller', async () => {
    const small = (n: number) => `${hash(n)}.1`;
    const quotaBytes = 4 * (16 + HEAD_BYTES);
    const tier = await open({ quotaBytes });
    for (const n of [1, 2, 3, 4]) tier.write(small(n), [new Uint8Array(16)]);
    await tier.flush();
    expect([tier.blocks, tier.bytes]).toEqual([4, quotaBytes]);
    // A large block replaces two small ones.
    await stored(tier, 1);
    expect([tier.blocks, tier.bytes]).toEqual([3, BLOCK + HEAD_BYTES + 2 * (16 + HEAD_BYTES)]);
    const again = await open({ quotaBytes });
    expect([again.blocks, again.bytes]).toEqual([tier.blocks, tier.bytes]);
  });

  it('stores blocks of a second group only for the part of a text that it has', async () => {
    const tier = await open({ quotaBytes: 3 * (BLOCK + HEAD_BYTES) });
    await stored(tier, 9);
    for (const n of [1, 2, 3, 4]) tier.write(hash(n), [kv(n)], n > 1 ? hash(n - 1) : null);
    tier.write(`${hash(4)}.1`, [kv(4)], `${hash(3)}.1`);
    await tier.flush();
    expect(await found(tier, 9, 1, 2, 3, 4)).toEqual([null, 1, 2, 3, null]);
    expect(tier.has(`${hash(4)}.1`)).toBe(false);
    tier.write(`${hash(2)}.1`, [kv(2)], `${hash(1)}.1`);
    await tier.flush();
    expect(tier.has(`${hash(2)}.1`)).toBe(true);
    expect(await found(tier, 1, 2, 3)).toEqual([1, 2, null]);
  });

  it('counts the bytes of each block, which may be fewer in another group', async () => {
    const tier = await open();
    await stored(tier, 1);
    const small = `${hash(1)}.1`;
    tier.write(small, [new Uint8Array(16).fill(5)]);
    await tier.flush();
    expect(tier.counters).toMatchObject({ written: 2, writtenBytes: BLOCK + 16, readBytes: 0 });
    const bytes = BLOCK + 16 + 2 * HEAD_BYTES;
    expect(tier.bytes).toBe(bytes);
    const again = await open();
    expect(again.bytes).toBe(bytes);
    expect(await again.read(small, [new Uint8Array(16)])).toBe(true);
    expect(await found(again, 1)).toEqual([1]);
    expect(again.counters).toMatchObject({ read: 2, readBytes: BLOCK + 16, writtenBytes: 0 });
    await writeFile(fileOfBlock(1), new Uint8Array());
    expect(await found(again, 1)).toEqual([null]);
    expect(again.bytes).toBe(16 + HEAD_BYTES);
  });

  it('forgets blocks whose TTL has passed', async () => {
    const clock = new TestClock(Date.now());
    const tier = await open({ ttlMs: 1000, clock });
    await stored(tier, 1);
    clock.advance(999);
    expect(await found(tier, 1)).toEqual([1]);
    clock.advance(2);
    expect(await found(tier, 1)).toEqual([null]);
    expect(tier.counters.expired).toBe(1);
  });

  it.each([
    ['cut short', (file: Uint8Array) => file.subarray(0, file.length - 1)],
    ['that is empty', () => new Uint8Array()],
    [
      'with a bit flipped in its KV',
      (file: Uint8Array) => file.with(HEAD_BYTES + 9, file[HEAD_BYTES + 9]! ^ 4),
    ],
    ['with a bit flipped in its head', (file: Uint8Array) => file.with(50, file[50]! ^ 1)],
    ['with a trailing byte', (file: Uint8Array) => new Uint8Array([...file, 0])],
    ['of another block', async () => readFile(fileOfBlock(2))],
  ])('treats a file %s as a miss, and removes, counts and reports it once', async (_, damage) => {
    await stored(await open(), 1, 2);
    await writeFile(fileOfBlock(1), await damage(new Uint8Array(await readFile(fileOfBlock(1)))));
    const tier = await open();
    expect(await found(tier, 1, 2)).toEqual([null, 2]);
    expect(tier.counters.broken).toBe(1);
    expect(troubles).toHaveLength(1);
    await expect.poll(() => readFile(fileOfBlock(1)).catch((error) => error.code)).toBe('ENOENT');
    await stored(tier, 1);
    expect(await found(tier, 1)).toEqual([1]);
  });

  it.each([
    ['broken', 2 ** 20, new Uint8Array(HEAD_BYTES)],
    ['over the quota', BLOCK + HEAD_BYTES, null],
  ])(
    'writes a block only after the pending removal of its old file, which is %s',
    async (_, quotaBytes, damage) => {
      await stored(await open(), 1);
      if (damage) await writeFile(fileOfBlock(1), damage);
      const onDisk = directoryFolder(directory);
      const removing: (() => void)[] = [];
      const writing: string[] = [];
      const folder: StoreFolder = {
        ...onDisk,
        async remove(name) {
          await new Promise<void>((resolve) => removing.push(resolve));
          await onDisk.remove(name);
        },
        write(name, bytes) {
          writing.push(path.basename(name, '.kv'));
          return onDisk.write(name, bytes);
        },
      };
      const tier = await open({ folder, quotaBytes });
      if (damage) expect(await found(tier, 1)).toEqual([null]);
      else tier.write(hash(2), [kv(2)]);
      await expect.poll(() => removing.length).toBe(1);
      tier.write(hash(1), [kv(1)]);
      expect(await found(tier, 1)).toEqual([1]);
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
      expect(writing).not.toContain(hash(1));
      const flushed = tier.flush().then(() => true);
      while (!(await Promise.race([flushed, new Promise((resolve) => setImmediate(resolve, false))])))
        for (const go of removing.splice(0)) go();
      const again = await open();
      expect(again.blocks).toBe(1);
      expect(await found(again, 1)).toEqual([1]);
    },
  );

  it("does not find another model's blocks, and removes them to make room for its own", async () => {
    const quotaBytes = 4 * (BLOCK + HEAD_BYTES);
    await stored(await open({ quotaBytes, namespace: hash(7) }), 1, 2, 3, 4);
    const tier = await open({ quotaBytes });
    expect(await found(tier, 1)).toEqual([null]);
    await stored(tier, 5);
    expect(await found(tier, 5)).toEqual([5]);
    const bytes = (await directoryFolder(directory).list())
      .filter(({ name }) => name !== MARKER)
      .reduce((sum, file) => sum + file.bytes, 0);
    expect(bytes).toBeLessThanOrEqual(quotaBytes);
  });

  it("keeps another model's blocks if it refuses to open because of its quota", async () => {
    await stored(await open({ namespace: hash(7) }), 1, 2);
    await expect(open({ quotaBytes: BLOCK })).rejects.toThrow(/is limited to 64 bytes/);
    expect((await open({ namespace: hash(7) })).blocks).toBe(2);
  });

  it('reports each stored and each removed block once', async () => {
    const told: string[] = [];
    const onChange = (kind: string, key: string) => told.push(`${kind} ${Number.parseInt(key, 16)}`);
    const tier = await open({ quotaBytes: 2 * (BLOCK + HEAD_BYTES), onChange });
    for (const n of [1, 2, 3]) await stored(tier, n);
    expect(told.filter((one) => one.startsWith('stored'))).toEqual(['stored 1', 'stored 2', 'stored 3']);
    expect(told).toContain('removed 1');
    await rm(fileOfBlock(2));
    expect(await found(tier, 2, 2, 3)).toEqual([null, null, 3]);
    expect(told.filter((one) => one === 'removed 2')).toHaveLength(1);
    expect([...tier.keys()]).toEqual([hash(3)]);
  });

  it('can share its folder with other tiers, and treats blocks that were removed as misses', async () => {
    const [one, other] = [await open(), await open()];
    await Promise.all([stored(one, 1, 2, 3), stored(other, 2, 3, 4)]);
    const third = await open();
    expect(await found(third, 1, 2, 3, 4)).toEqual([1, 2, 3, 4]);
    await rm(fileOfBlock(2));
    expect(await found(third, 2, 3)).toEqual([null, 3]);
    expect(troubles).toEqual([]);
  });

  it.each([
    ['deleted', () => rm(directory, { recursive: true })],
    [
      'emptied',
      async () => {
        for (const name of await readdir(directory))
          await rm(path.join(directory, name), { recursive: true });
      },
    ],
  ])('loses its blocks if the folder is %s, and makes it a store again', async (_, remove) => {
    const tier = await open();
    await stored(tier, 1);
    await remove();
    expect(await found(tier, 1)).toEqual([null]);
    await stored(tier, 2);
    expect(await found(tier, 2)).toEqual([2]);
    expect(await found(await open(), 1, 2)).toEqual([null, 2]);
  });

  it('marks its folder again if only blocks were left in it, whose writing went on while it was removed', async () => {
    const tier = await open();
    await stored(tier, 1);
    await rm(path.join(directory, MARKER));
    tier.write(`ff${hash(2).slice(2)}`, [kv(2)]);
    await tier.flush();
    expect((await open()).blocks).toBe(2);
  });

  it('does not write to a folder of other files that has taken the place of its own', async () => {
    const tier = await open();
    await rm(directory, { recursive: true });
    await mkdir(directory);
    await writeFile(path.join(directory, 'thesis.txt'), 'mine');
    await stored(tier, 1);
    expect(troubles).toEqual([
      expect.stringMatching(/cannot be written to \(it has no kvferry-store.json any more/),
    ]);
    expect(await readdir(directory)).toEqual(['thesis.txt']);
  });

  it('evicts the oldest blocks first when it is opened again, but the end of a text before its start', async () => {
    await stored(await open(), 1, 2, 3, 4, 5);
    for (const [n, seconds] of [
      [1, 1000],
      [2, 10],
      [3, 8],
      [4, 6],
      [5, 4],
    ] as const) {
      const time = new Date(Date.now() - 1000 * seconds);
      await utimes(fileOfBlock(n), time, time);
    }
    const tier = await open({ quotaBytes: 5 * (BLOCK + HEAD_BYTES) });
    await stored(tier, 6, 7, 8);
    expect(await found(tier, 1, 2, 3, 4, 5)).toEqual([null, 2, 3, null, null]);
  });

  it('treats a file that cannot be read as a miss, counts it, and replaces it', async () => {
    await stored(await open(), 1, 2);
    const onDisk = directoryFolder(directory);
    let fails = true;
    const folder: StoreFolder = {
      ...onDisk,
      readFor: (name, most, use) =>
        fails && name.includes(hash(1)) ? Promise.reject(new Error('EIO')) : onDisk.readFor!(name, most, use),
    };
    const told: string[] = [];
    const onChange = (kind: string) => told.push(kind);
    const tier = await open({ folder, quotaBytes: 2 * (BLOCK + HEAD_BYTES), onChange });
    expect(await found(tier, 1, 2, 1)).toEqual([null, 2, null]);
    expect(tier.counters.broken).toBe(1);
    expect(tier.blocks).toBe(1);
    expect(troubles).toEqual([expect.stringMatching(/cannot be read \(EIO\)/)]);
    fails = false;
    await stored(tier, 1);
    expect(await found(tier, 1, 2)).toEqual([1, 2]);
    expect(told).toEqual(['removed', 'stored']);
  });

  it('counts a file that cannot be read until it is removed to make room', async () => {
    await stored(await open(), 1, 2);
    const folder = { ...directoryFolder(directory), readFor: () => Promise.reject(new Error('EIO')) };
    const quotaBytes = 2 * (BLOCK + HEAD_BYTES);
    const tier = await open({ folder, quotaBytes });
    expect(await found(tier, 1, 2)).toEqual([null, null]);
    await stored(tier, 3);
    const files = (await folder.list()).filter(({ name }) => name !== MARKER);
    expect(files).toHaveLength(2);
    expect(tier.bytes).toBe(BLOCK + HEAD_BYTES);
  });

  it.each(['ENOSPC', 'EROFS', 'EACCES'])(
    'still reads blocks when writing fails with %s, reports that once and retries later',
    async (code) => {
      await stored(await open(), 1);
      const folder = directoryFolder(directory);
      let full = true;
      const failing: StoreFolder = {
        ...folder,
        write: (name, bytes) =>
          full ? Promise.reject(Object.assign(new Error(code), { code })) : folder.write(name, bytes),
      };
      const clock = new TestClock(Date.now());
      const tier = await open({ folder: failing, clock });
      await stored(tier, 2, 3);
      expect(await found(tier, 1, 2, 3)).toEqual([1, null, null]);
      expect(troubles).toEqual([expect.stringContaining(code)]);
      full = false;
      await stored(tier, 4);
      expect(await found(tier, 4)).toEqual([null]);
      clock.advance(20_000);
      await stored(tier, 5);
      expect(await found(tier, 5)).toEqual([5]);
      expect(troubles).toHaveLength(1);
    },
  );

  it('treats a block of an unknown format as a miss, and removes, counts and reports it', async () => {
    await stored(await open(), 1, 2);
    const file = new Uint8Array(await readFile(fileOfBlock(1)));
    new DataView(file.buffer).setUint16(4, 9, true);
    await writeFile(fileOfBlock(1), file);
    const tier = await open();
    expect(await found(tier, 1, 2)).toEqual([null, 2]);
    expect(tier.counters.broken).toBe(1);
    expect(troubles).toEqual([expect.stringMatching(/it has format 9, not 2/)]);
    await expect.poll(() => readFile(fileOfBlock(1)).catch((error) => error.code)).toBe('ENOENT');
  });

  it('reads a block of format 1', async () => {
    await stored(await open(), 1);
    const file = new Uint8Array(await readFile(fileOfBlock(1)));
    const view = new DataView(file.buffer);
    view.setUint16(4, 1, true);
    // The checksums of the KV and of the header before it.
    view.setUint32(76, checksumInOneRow(file.subarray(HEAD_BYTES)), true);
    view.setUint32(80, checksumInOneRow(file.subarray(0, 80)), true);
    await writeFile(fileOfBlock(1), file);
    expect(await found(await open(), 1)).toEqual([1]);
    expect(troubles).toEqual([]);
  });

  it('has a separate namespace for each set of weights, layout, adapter and hash seed', () => {
    const equal = {
      ...{ compatibilityHash: hash(1), blockSize: 16, blockBytes: [64], hashSeed: 'seed' },
      ...{ adapter: 'one', weights: null },
    };
    const names = [
      equal,
      { ...equal, compatibilityHash: hash(2) },
      { ...equal, blockSize: 32 },
      { ...equal, blockBytes: [64, 64] },
      { ...equal, hashSeed: 'other' },
      { ...equal, adapter: 'two' },
      { ...equal, weights: 'w' },
    ].map(namespaceOf);
    expect(new Set(names).size).toBe(names.length);
    expect(namespaceOf({ ...equal })).toBe(names[0]);
  });

  it('refuses a quota below one block, and a folder of another format, of other files or not writable', async () => {
    await expect(open({ quotaBytes: BLOCK })).rejects.toThrow(
      /is limited to 64 bytes, but a block takes 160/,
    );
    await open();
    await writeFile(path.join(directory, MARKER), '{"format":99}');
    await expect(open()).rejects.toThrow(
      /is a store of format 99, but this kvferry reads format 1: give another folder/,
    );
    await rm(path.join(directory, MARKER));
    await writeFile(path.join(directory, 'thesis.txt'), 'mine');
    await expect(open()).rejects.toThrow(/is not a kvferry store/);
    const folder = directoryFolder('/proc/kvferry');
    await expect(open({ folder })).rejects.toThrow(
      /cannot write to \/proc\/kvferry: .*; give another folder/,
    );
  });

  it('removes nothing from a folder that is not a store, and from its own only leftover temporary files', async () => {
    const long = new Date(Date.now() - 3_600_000);
    const put = async (name: string) => {
      const file = path.join(directory, name);
      await mkdir(path.dirname(file), { recursive: true });
      await writeFile(file, 'mine');
      await utimes(file, long, long);
      return file;
    };
    const [draft, deep] = [await put('draft.tmp'), await put('a/b/thesis.tmp')];
    const left = await put('a/x.kv.123-0123456789ab.tmp');
    await expect(open()).rejects.toThrow(/is not a kvferry store/);
    await expect(listFolder(directoryFolder(directory))).rejects.toThrow(/is not a kvferry store/);
    for (const file of [draft, deep, left]) expect(await readFile(file, 'utf8')).toBe('mine');

    await writeFile(path.join(directory, MARKER), JSON.stringify({ format: FORMAT_VERSION }));
    await open();
    for (const file of [draft, deep]) expect(await readFile(file, 'utf8')).toBe('mine');
    await expect(readFile(left)).rejects.toThrow('ENOENT');
  });

  it('accepts only block hashes as names', async () => {
    const tier = await open();
    for (const evil of ['../../etc/passwd', 'a/b', '', `${hash(1)}x`]) {
      tier.write(evil, [kv(1)]);
      expect(tier.has(evil)).toBe(false);
      expect(await tier.read(evil, [new Uint8Array(BLOCK)])).toBe(false);
    }
    await tier.flush();
    expect(await readdir(directory)).toEqual([MARKER]);
  });

  it('contains only whole blocks after a writer was killed at any moment', async () => {
    const dist = pathToFileURL(path.resolve('dist/src'));
    const script = `
      import { FolderTier } from "${dist}/store/folder-tier.js";
      import { directoryFolder } from "${dist}/platform/node/store-folder.js";
      const clock = { now: () => Date.now(), sleep: async () => {} };
      const tier = await FolderTier.open({ folder: directoryFolder(${JSON.stringify(directory)}), namespace: '${NAMESPACE}',
        blockBytes: ${BLOCK}, quotaBytes: 2 ** 20, ttlMs: null, clock, onTrouble() {} });
      process.stdout.write('.');
      for (let n = 1 + Number(process.argv[1]); ; n++) {
        tier.write(n.toString(16).padStart(64, '0'), [new Uint8Array(${BLOCK}).fill(n % 251)]);
        await tier.flush();
        process.stdout.write('.');
      }`;
    for (let kill = 0; kill < 20; kill++) {
      const child = spawn(process.execPath, ['--input-type=module', '-e', script, String(kill * 100)], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const exited = new Promise((resolve) => child.once('exit', resolve));
      let marks = 0;
      const wanted = 1 + (kill % 5);
      await new Promise<void>((resolve, reject) => {
        child.once('exit', (code) => reject(new Error(`the writer ended by itself, with ${code}`)));
        child.stdout.on('data', (data: Buffer) => {
          marks += data.length;
          if (marks >= wanted) resolve();
        });
      });
      // Kill at a varying point in the writes that follow.
      for (let turn = (kill * 7919) % 97; turn > 0; turn--)
        await new Promise((resolve) => setImmediate(resolve));
      child.kill('SIGKILL');
      await exited;
    }
    const tier = await open({ quotaBytes: 2 ** 24 });
    const numbers = Array.from({ length: 12_200 }, (_, n) => n).filter((n) => tier.has(hash(n)));
    expect(numbers.length).toBeGreaterThan(0);
    expect(await found(tier, ...numbers)).toEqual(numbers);
    expect(tier.counters.broken).toBe(0);
  });
});
