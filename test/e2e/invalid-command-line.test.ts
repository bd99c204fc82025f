/** An invalid command line that would start engines: threads that were started early are ended cleanly. */
import { execFile } from 'node:child_process';
import { expect, it } from 'vitest';
import { bundled } from '../../src/platform/node/paths.ts';

const AT_ONCE = 5;
const EACH = 4;

/** Resolves to the exit code or signal, and stderr. */
const refused = () =>
  new Promise<[end: unknown, said: string]>((resolve) => {
    execFile(process.execPath, [bundled('kvferry'), 'run', '--store-ttl', '5'], (error, _, stderr) => {
      resolve([error?.signal ?? error?.code, stderr]);
    });
  });

// At most one in twenty runs hits the moment when a thread is loading.
it('an invalid command line is reported with exit code 2 wherever its threads are in their start', async () => {
  const ends: [unknown, string][] = [];
  const some = async () => {
    for (let i = 0; i < EACH; i++) ends.push(await refused());
  };
  await Promise.all(Array.from({ length: AT_ONCE }, some));
  for (const [end, said] of ends) {
    expect(end).toBe(2);
    expect(said).toMatch(/^kvferry: --store-ttl needs a store folder or server.*\n$/);
  }
  expect(ends).toHaveLength(AT_ONCE * EACH);
});
