/** A command line that starts engines and is refused: threads begun ahead are ended without harm to the process. */
import { execFile } from 'node:child_process';
import { expect, it } from 'vitest';
import { bundled } from '../../src/platform/node/paths.ts';

const AT_ONCE = 5;
const EACH = 4;

/** Resolves to its exit code, or the signal that ended it, and what it said. */
const refused = () =>
  new Promise<[end: unknown, said: string]>((resolve) => {
    execFile(process.execPath, [bundled('kvferry'), 'run', '--store-ttl', '5'], (error, _, stderr) => {
      resolve([error?.signal ?? error?.code, stderr]);
    });
  });

// The thread's moment of loading is met in one of twenty at best.
it('says what is wrong and ends with 2, however far its threads were', async () => {
  const ends: [unknown, string][] = [];
  const some = async () => {
    for (let i = 0; i < EACH; i++) ends.push(await refused());
  };
  await Promise.all(Array.from({ length: AT_ONCE }, some));
  for (const [end, said] of ends) {
    expect(end).toBe(2);
    expect(said).toMatch(/^kvferry: --store-ttl is about a folder.*\n$/);
  }
  expect(ends).toHaveLength(AT_ONCE * EACH);
});
