/** The page's engines on a cluster that only says what is done to it. */
import { expect, it, vi } from 'vitest';
import { Engines } from '../../../demo/src/session/engines.ts';
import { defaultSettings } from '../../../demo/src/session/settings.ts';

const cluster = vi.hoisted(() => ({ closed: 0 }));

vi.mock('../../../demo/src/session/start-cluster.ts', () => ({
  startCluster: async () => ({
    settings: { prefill: { numBlocks: 128 }, decode: { numBlocks: 128 } },
    configure: async () => {
      throw new Error('the pool is too small to measure in');
    },
    close: async () => {
      cluster.closed++;
    },
  }),
}));

it('of a start that fails once they are built nothing is left running', async () => {
  vi.useFakeTimers();
  const engines = new Engines(
    () => {},
    0,
    () => false,
  );
  await expect(engines.start({ ...defaultSettings, model: 'nano' })).rejects.toThrow('too small');
  expect(engines.running).toBeNull();
  expect(cluster.closed).toBe(1);
  vi.useRealTimers();
});
