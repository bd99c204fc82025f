/** The page's engines on a fake cluster that records its calls. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { Engines } from '../../../demo/src/session/engines.ts';
import { defaultSettings } from '../../../demo/src/session/settings.ts';
import { ModelError } from '../../../src/errors.ts';

const cluster = vi.hoisted(() => ({
  closed: 0,
  refuses: false,
  engines: [] as { engineId: string; role: string }[],
  /** Completes a scale call in progress; null if there is none. */
  join: null as ((error?: Error) => void) | null,
  configured: [] as number[],
  /** The error with which a start fails; null if it succeeds. */
  broken: null as Error | null,
}));

vi.mock('../../../demo/src/session/start-cluster.ts', () => ({
  startCluster: async () => ({
    settings: cluster.broken
      ? await Promise.reject(cluster.broken)
      : { prefill: { numBlocks: 128 }, decode: { numBlocks: 128 } },
    engines: cluster.engines,
    members: { staying: cluster.engines.slice(0, 2) },
    configure: async () => {
      if (cluster.refuses) throw new Error('the pool is too small to measure in');
      if (cluster.join) throw new Error('the fleet is being scaled');
      cluster.configured.push(cluster.engines.length);
    },
    scale: async ({ decode }: { decode: number }) => {
      if (cluster.join) throw new Error('the fleet is being scaled');
      await new Promise<void>((resolve, reject) => {
        cluster.join = (error) => (error ? reject(error) : resolve());
      }).finally(() => {
        cluster.join = null;
      });
      cluster.engines.splice(1);
      for (let i = 0; i < decode; i++) cluster.engines.push({ engineId: `decode-${i}`, role: 'decode' });
    },
    close: async () => {
      cluster.closed++;
      cluster.join?.(new Error('the fleet was closed while it was being scaled'));
    },
  }),
}));
vi.mock('../../../src/recording/recorder.ts', () => ({
  Recorder: class {
    async poll() {}
    machine() {}
    detach() {}
  },
}));

// Blocks are not polled.
beforeAll(() => void vi.stubGlobal('setInterval', () => 0));
afterAll(() => void vi.unstubAllGlobals());
beforeEach(
  () => void Object.assign(cluster, { closed: 0, refuses: false, join: null, configured: [], broken: null }),
);
afterEach(() => void vi.useRealTimers());

const quiet = () =>
  new Engines(
    () => {},
    0,
    () => false,
  );

/** Starts one P and one D. */
async function started(): Promise<Engines> {
  const engines = quiet();
  const [p, d] = [
    { engineId: 'prefill-0', role: 'prefill' },
    { engineId: 'decode-0', role: 'decode' },
  ];
  cluster.engines.splice(0, Number.POSITIVE_INFINITY, p, d);
  await engines.start({ ...defaultSettings, model: 'nano' });
  cluster.configured = [];
  return engines;
}
const joined = async (): Promise<void> => {
  await expect.poll(() => cluster.join).not.toBeNull();
  cluster.join!();
};

it('a truncated model is fetched again on the next start, one that failed for another reason is not', async () => {
  const asked: string[] = [];
  vi.stubGlobal('fetch', async (url: string) => {
    asked.push(url);
    return new Response('{}', { status: url.endsWith('.index.json') ? 404 : 200 });
  });
  const engines = quiet();
  const start = () => engines.start({ ...defaultSettings, model: 'https://host/model' });
  const fetched = async (why: Error | null): Promise<number> => {
    cluster.broken = why;
    asked.length = 0;
    await start().catch(() => {});
    return asked.filter((url) => url.endsWith('config.json')).length;
  };
  expect(await fetched(new ModelError('model.safetensors is truncated'))).toBeGreaterThan(0);
  expect(await fetched(new Error('no device'))).toBeGreaterThan(0);
  expect(await fetched(null)).toBe(0);
});

it('a start that fails after the engines were built leaves none running', async () => {
  vi.useFakeTimers();
  const engines = quiet();
  cluster.refuses = true;
  await expect(engines.start({ ...defaultSettings, model: 'nano' })).rejects.toThrow('too small');
  expect(engines.running).toBeNull();
  expect(cluster.closed).toBe(1);
});

it('settings of the store’s folder are ignored while there is no folder', async () => {
  const engines = quiet();
  const settings = { ...defaultSettings, model: 'nano', store: 2 ** 20, storeDir: null };
  await engines.start({ ...settings, storePrefetch: 'best_effort', storeWrite: 'ALL' });
  expect(engines.running).not.toBeNull();
});

it('a scale or a settings change requested while an engine joins is made afterwards', async () => {
  const engines = await started();
  const two = engines.scale({ ...defaultSettings, decode: 2 });
  const three = engines.scale({ ...defaultSettings, decode: 3 });
  const emptied = engines.configure({ ...defaultSettings, model: 'nano', decode: 3 });
  await joined();
  await two;
  expect(cluster.engines).toHaveLength(3);
  await joined();
  await Promise.all([three, emptied]);
  expect(cluster.engines).toHaveLength(4);
  expect(cluster.configured).toEqual([4]);
});

it('engines that are leaving are not counted', async () => {
  const engines = await started();
  cluster.engines.push({ engineId: 'decode-1', role: 'decode' });
  expect(engines.counts).toEqual({ prefill: 1, decode: 1 });
});

it('closing the engines while one joins is not an error of the scale call', async () => {
  const engines = await started();
  const two = engines.scale({ ...defaultSettings, decode: 2 });
  await expect.poll(() => cluster.join).not.toBeNull();
  await engines.close();
  await two;
});
