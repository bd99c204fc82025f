/** Threads that were given up count as hanging until they end. */
import { expect, it } from 'vitest';
import { hangingThreads, startStoreThread } from '../../src/platform/node/threads.ts';

it('an abandoned thread hangs until it ends', async () => {
  const thread = startStoreThread();
  expect(hangingThreads()).toEqual([]);
  thread.abandon();
  expect(hangingThreads()).toEqual(['store']);
  // Nothing keeps this one: its port is closed.
  await expect.poll(hangingThreads).toEqual([]);
});
