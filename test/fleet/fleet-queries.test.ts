/** Kernel times read from a fleet's engines. */
import { expect, it } from 'vitest';
import type { EnginePool } from '../../src/fleet/engine-pool.ts';
import { kernelTimesOf } from '../../src/fleet/fleet-queries.ts';

it('kernel times come from running engines only, and an error in one of those is passed on', async () => {
  const engine = (ended: Error | null, answer: () => Promise<unknown>) => ({
    ended,
    lab: { takeKernelTimes: answer },
  });
  const gone = new Error('it ended');
  const dead = engine(gone, () => Promise.reject(gone));
  const ends = engine(null, () => {
    ends.ended = gone;
    return Promise.reject(gone);
  });
  const serves = engine(null, async () => 'times');
  const taken = (...all: object[]) => kernelTimesOf({ all } as unknown as EnginePool);
  expect(await taken(dead, ends, serves)).toEqual(['times']);
  await expect(
    taken(
      serves,
      engine(null, () => Promise.reject(new Error('a bug'))),
    ),
  ).rejects.toThrow('a bug');
});
