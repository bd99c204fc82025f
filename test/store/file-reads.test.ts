/** Reading files synchronously on the thread: what is read, and that neither a slow disk nor many files block it for long. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/platform/clock.ts';
import { FileReads, readAtOnce, readWhole } from '../../src/platform/node/file-reads.ts';

/**
 * A disk whose nth read takes msOf(n) ms; reads of files in `hangs` never end. `log`: the files read, each by the pool
 * ("pool") or synchronously ("here").
 */
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
      // Resumes after everything that ends immediately.
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
  it('starts with a read by the pool, and if that is quick continues synchronously', async () => {
    const { readAll, log } = diskWith(() => 0.1);
    expect(await readAll(4)).toEqual([0, 1, 2, 3]);
    expect(log).toEqual(['pool 0', 'here 1', 'here 2', 'here 3']);
    expect(await readAll(2)).toEqual([0, 1]);
    expect(log.slice(4)).toEqual(['pool 0', 'here 1']);
  });

  it('uses the pool if the first read is slow, or from the first slow read on', async () => {
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

  it('becomes synchronous again if the disk is quick after 64 more reads by the pool', async () => {
    const { readAll, log } = diskWith((read) => (read === 0 ? 30 : 0.01));
    await readAll(100);
    // The slow first read, the 64 left to the pool because of it, and the quick one after them.
    expect(log.filter((line) => line.startsWith('pool'))).toHaveLength(1 + 64 + 1);
    expect(log.at(-1)).toBe('here 99');
  });

  it('is not taken for slow because its caller was busy in the meantime', async () => {
    const { readAll, log, wait } = diskWith(() => 0.01);
    const all = readAll(4);
    wait(50);
    await all;
    expect(log).toEqual(['pool 0', 'here 1', 'here 2', 'here 3']);
  });

  it('leaves only one read to the pool after a slow one that follows many quick ones', async () => {
    const { readAll, log } = diskWith((read) => (read === 20 ? 3 : 0.01));
    await readAll(24);
    const inPool = log.flatMap((line, i) => (line.startsWith('pool') ? [i] : []));
    expect(inPool).toEqual([0, 21]);
  });

  it('is not held up by a read that hangs, whether it is the first, in the pool or an earlier one', async () => {
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

  it('yields to other tasks after a few milliseconds', async () => {
    const { readAll, log } = diskWith(() => 1);
    const begun: number[] = [];
    const look = () => {
      begun.push(log.length);
      if (log.length < 40) setImmediate(look);
    };
    setImmediate(look);
    await readAll(40);
    const between = begun.map((count, i) => count - (begun[i - 1] ?? 0));
    // Four synchronous reads of 1 ms, and one by the pool before the first of them.
    expect(Math.max(...between)).toBeLessThanOrEqual(5);
  });

  it('includes files requested while it runs, and just as it ends', async () => {
    const { reads } = diskWith(() => 0.1);
    const read = (file: number): Promise<number> =>
      reads.read(`${file}`, 8, (bytes) => bytes![0]!).then((value) => (value < 9 ? read(value + 1) : value));
    expect(await Promise.all([read(0), read(5)])).toEqual([9, 9]);
  });

  it('rejects only the reads that fail, on the disk or in their callback', async () => {
    const broken = () => {
      throw new Error('a disk that fails');
    };
    const one = new Uint8Array(1);
    const clock = { now: () => 0, sleep: () => new Promise<void>(() => {}) };
    const pool = new FileReads({ clock, read: async () => one, readNow: broken });
    // A disk that fails may be one that does not answer, so the rest is not read in this thread.
    const here = new FileReads({
      clock,
      read: async (file) => (file === '0' ? broken() : one),
      readNow: broken,
    });
    for (const [reads, which] of [
      [pool, 1],
      [here, 0],
    ] as const) {
      const all = [0, 1, 2].map((n) => reads.read(`${n}`, 8, (bytes) => bytes!.length));
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

it('real files are read whole, absent ones are null, and longer ones give one extra byte', async () => {
  const directory = await mkdtemp(path.join(tmpdir(), 'kvferry-reads-'));
  try {
    const [short, long] = ['short', 'long'].map((name) => path.join(directory, name)) as [string, string];
    await writeFile(short, new Uint8Array([1, 2, 3]));
    await writeFile(long, new Uint8Array(20).fill(7));
    const reads = new FileReads({ clock: systemClock, read: readWhole, readNow: readAtOnce });
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
