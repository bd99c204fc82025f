/** Calls for files on a disk that does not answer. Their time limit is 0: a call hangs that is there after two timers. */
import { expect, it } from 'vitest';
import { FileCalls } from '../../src/platform/node/file-calls.ts';
import { settled } from '../clock.ts';

/** A call that ends when it is told to. */
function held() {
  let end: () => void = () => {};
  const ends = new Promise<void>((resolve) => {
    end = resolve;
  });
  return { end, work: () => ends };
}

const SILENT = 'no answer for 0 s: its disk or network may be down';

it('a call that hangs fails, and so do others, at once, until it returns', async () => {
  const calls = new FileCalls(0);
  const { end, work } = held();
  await expect(calls.run(work)).rejects.toThrow(SILENT);
  let tried = false;
  const next = calls.run(async () => {
    tried = true;
  });
  await expect(next).rejects.toThrow(SILENT);
  expect(tried).toBe(false);
  end();
  await settled();
  expect(await calls.run(async () => 7)).toBe(7);
});

it('three calls run at a time, whether they fail or not, and the others follow in order', async () => {
  const calls = new FileCalls();
  const begun: number[] = [];
  const works = Array.from({ length: 6 }, held);
  const all = works.map(({ work }, i) =>
    calls.run(async () => {
      begun.push(i);
      await work();
      if (i === 1) throw new Error('broken');
      return i;
    }),
  );
  const results = Promise.allSettled(all);
  await settled();
  expect(begun).toEqual([0, 1, 2]);
  works[1]!.end();
  works[2]!.end();
  await settled();
  expect(begun).toEqual([0, 1, 2, 3, 4]);
  for (const { end } of works) end();
  expect((await results).map((result) => ('value' in result ? result.value : null))).toEqual([
    ...[0, null, 2, 3, 4, 5],
  ]);
});

it('calls that wait for a thread fail with those that hang', async () => {
  const calls = new FileCalls(0);
  const works = Array.from({ length: 5 }, held);
  const results = await Promise.allSettled(works.map(({ work }) => calls.run(work)));
  expect(results.map(({ status }) => status)).toEqual(Array(5).fill('rejected'));
  for (const { end } of works) end();
  await settled();
  expect(await calls.run(async () => 7)).toBe(7);
});
