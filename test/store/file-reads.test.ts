/** Reading files in the thread itself: what comes, and that neither a slow disk nor many files hold others up for long. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { FileReads } from '../../src/platform/node/file-reads.ts';

/** A disk whose reads take so many milliseconds each, by turns, and for ever of some; `log`: who read what. */
function diskWith(msOf: (read: number) => number, hangs: readonly string[] = []) {
  let nowMs = 0;
  let count = 0;
  const log: string[] = [];
  const others: number[] = [];
  const take = (way: string, file: string) => {
    nowMs += msOf(count++);
    log.push(`${way} ${file}`);
  };
  const reads = new FileReads({
    clock: {
      now: () => nowMs,
      // Later than all that ends at once.
      async sleep(ms, signal) {
        await new Promise(setImmediate);
        if (!signal?.aborted) nowMs += ms;
      },
    },
    read: async (file) => {
      take('pool', file);
      if (hangs.includes(file)) await new Promise(() => {});
      return new Uint8Array([Number(file)]);
    },
    readNow: (file, into) => {
      take('here', file);
      into[0] = Number(file);
      return 1;
    },
  });
  const readEach = (files: number) =>
    Array.from({ length: files }, (_, i) => reads.read(`${i}`, 8, (bytes) => bytes![0]));
  const readAll = (files: number) => Promise.all(readEach(files));
  const wait = (ms: number) => {
    nowMs += ms;
  };
  return { reads, readEach, readAll, wait, log, others, now: () => nowMs };
}

describe('a run of reads', () => {
  it('begins with one that does not hold up the thread; what follows is read at once', async () => {
    const { readAll, log } = diskWith(() => 0.1);
    expect(await readAll(4)).toEqual([0, 1, 2, 3]);
    expect(log).toEqual(['pool 0', 'here 1', 'here 2', 'here 3']);
    expect(await readAll(2)).toEqual([0, 1]);
    expect(log.slice(4)).toEqual(['pool 0', 'here 1']);
  });

  it('is left to the pool where the first is slow, or from the first on that is', async () => {
    const slow = diskWith(() => 30);
    expect(await slow.readAll(5)).toEqual([0, 1, 2, 3, 4]);
    expect(slow.log.every((line) => line.startsWith('pool'))).toBe(true);
    const later = diskWith((read) => (read === 2 ? 30 : 0.1));
    expect(await later.readAll(6)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(later.log.map((line) => line.split(' ')[0])).toEqual([
      'pool',
      'here',
      'here',
      'pool',
      'pool',
      'pool',
    ]);
  });

  it('is seen to be quick again after some that were left to the pool', async () => {
    const { readAll, log } = diskWith((read) => (read === 0 ? 30 : 0.01));
    await readAll(100);
    // The first, those that were left to the pool for it, and the one that was quick.
    expect(log.filter((line) => line.startsWith('pool'))).toHaveLength(1 + 64 + 1);
    expect(log.at(-1)).toBe('here 99');
  });

  it('asked for by somebody who is busy meanwhile is not taken for slow', async () => {
    const { readAll, log, wait } = diskWith(() => 0.01);
    const all = readAll(4);
    wait(50);
    await all;
    expect(log).toEqual(['pool 0', 'here 1', 'here 2', 'here 3']);
  });

  it('goes on at once after a slow one that came behind many quick ones', async () => {
    const { readAll, log } = diskWith((read) => (read === 20 ? 3 : 0.01));
    await readAll(24);
    const inPool = log.flatMap((line, i) => (line.startsWith('pool') ? [i] : []));
    expect(inPool).toEqual([0, 21]);
  });

  it('one that hangs holds up no other, be it the first, among those in the pool, or alone when others come', async () => {
    const first = diskWith(() => 0.1, ['0']);
    const [, ...others] = first.readEach(9);
    expect(await Promise.all(others)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    const among = diskWith(() => 30, ['2', '3', '4', '5']);
    const all = among.readEach(12);
    const some = all.filter((_, i) => i < 2 || i > 5);
    expect(await Promise.all(some)).toEqual([0, 1, 6, 7, 8, 9, 10, 11]);
    const alone = diskWith(() => 0.1, ['0']);
    void alone.readEach(1);
    await new Promise(setImmediate);
    expect(await alone.reads.read('7', 8, (bytes) => bytes![0])).toBe(7);
  });

  it('lets others have their turn after a few milliseconds', async () => {
    const { readAll, log } = diskWith(() => 1);
    const begun: number[] = [];
    const look = () => {
      begun.push(log.length);
      if (log.length < 40) setImmediate(look);
    };
    setImmediate(look);
    await readAll(40);
    const between = begun.map((count, i) => count - (begun[i - 1] ?? 0));
    // Four milliseconds of reading, and one of the pool's before the first.
    expect(Math.max(...between)).toBeLessThanOrEqual(5);
  });

  it('what is asked for while it goes on, and just as it ends, comes too', async () => {
    const { reads } = diskWith(() => 0.1);
    const read = (file: number): Promise<number> =>
      reads.read(`${file}`, 8, (bytes) => bytes![0]!).then((value) => (value < 9 ? read(value + 1) : value));
    expect(await Promise.all([read(0), read(5)])).toEqual([9, 9]);
  });

  it('one that fails, by its disk or by who uses it, fails alone', async () => {
    const broken = () => {
      throw new Error('a disk that fails');
    };
    const one = new Uint8Array(1);
    const clock = { now: () => 0, sleep: () => new Promise<void>(() => {}) };
    const pool = new FileReads({ clock, read: async () => one, readNow: broken });
    const here = new FileReads({ clock, read: async () => broken(), readNow: () => 1 });
    for (const [reads, which] of [
      [pool, 1],
      [here, 0],
    ] as const) {
      const all = [0, 1, 2].map(() => reads.read('a', 8, (bytes) => bytes!.length));
      const ends = await Promise.allSettled(all);
      if (which === 0)
        expect(ends.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled']);
      else expect(ends.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
    }
    const used = new FileReads({ clock, read: async () => one, readNow: () => 1 });
    const ends = await Promise.allSettled([0, 1].map(() => used.read('a', 8, broken)));
    expect(ends.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  });
});

it('of real files: whole ones, absent ones, a byte more of longer ones, by either way', async () => {
  const directory = await mkdtemp(path.join(tmpdir(), 'kvferry-reads-'));
  try {
    const [short, long] = ['short', 'long'].map((name) => path.join(directory, name)) as [string, string];
    await writeFile(short, new Uint8Array([1, 2, 3]));
    await writeFile(long, new Uint8Array(20).fill(7));
    const reads = new FileReads();
    const read = (file: string) => reads.read(file, 3, (bytes) => bytes && [...bytes.subarray(0, 4)]);
    const absent = path.join(directory, 'absent');
    const files = [short, absent, path.join(short, 'below'), short, long];
    expect(await Promise.all([...files, ...files].map(read))).toEqual([
      ...[[1, 2, 3], null, null, [1, 2, 3], [7, 7, 7, 7]],
      ...[[1, 2, 3], null, null, [1, 2, 3], [7, 7, 7, 7]],
    ]);
    await expect(read(directory)).rejects.toThrow('EISDIR');
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
