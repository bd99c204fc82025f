import { expect, test } from 'vitest';
import { main } from '../../src/cli/app.ts';
import { fakeWorld } from './fake.ts';

test('serve shows its URLs and a line to try, and ends well on a signal', async () => {
  const world = fakeWorld();
  const ended = main(
    ['serve', '--model', 'nano', '--served-model-name', 'a, b', '--grace', '3', '--temperature', '0.5'],
    world.deps,
  );
  await expect.poll(() => world.out()).toContain('curl http://h:3/v1/chat/completions');
  const { options, server } = world.served[0]!;
  expect(options).toMatchObject({ model: 'nano', mode: 'bidirectional' });
  expect(server).toMatchObject({
    host: '127.0.0.1',
    ports: { router: 8000, prefill: 8100, decode: 8200 },
    servedModelNames: ['a', 'b'],
    maxQueue: 256,
    apiKey: null,
    corsOrigins: [],
    streamingKvParams: true,
  });
  expect(server.defaults).toMatchObject({ temperature: 0.5, maxTokens: 128 });
  world.interrupt();
  expect(await ended).toBe(0);
  expect(world.stopped).toEqual([3000]);
});

test("recall is served with vLLM's defaults, not with those of the shipped conversation", async () => {
  const world = fakeWorld();
  const ended = main(['serve', '--json'], world.deps);
  await expect.poll(() => world.out()).toContain('"router"');
  expect(JSON.parse(world.out())).toEqual({
    model: 'recall',
    urls: { prefill: 'http://h:1', decode: 'http://h:2', router: 'http://h:3' },
  });
  const { options } = world.served[0]!;
  expect(options.prefill.enablePrefixCaching).toBe(true);
  expect(options.connector.nixl.recomputeThreshold).toBe(64);
  world.interrupt();
  expect(await ended).toBe(0);
});

test('serve takes the cost-aware policy, and measures costs before ports are open', async () => {
  const world = fakeWorld();
  const ended = main(['serve', '--model', 'nano', '--pull-policy', 'cost-aware'], world.deps);
  await expect.poll(() => world.out()).toContain('router   http://h:3');
  expect(world.err()).toContain('a quick calibration first');
  expect(world.clusters[0]!.settings).toMatchObject({ mode: 'bidirectional', link: null });
  expect(world.clusters[0]!.settings.connector.nixl.costProfile).toMatchObject({ model: 'nano' });
  world.interrupt();
  expect(await ended).toBe(0);
});

test('serve refuses a profile that nothing would use, before anything starts', async () => {
  const world = fakeWorld({}, { 'c.json': '{}' });
  expect(await main(['serve', '--model', 'nano', '--cost-profile', 'c.json'], world.deps)).toBe(2);
  expect(world.err()).toContain('--cost-profile is given and --pull-policy is threshold');
  expect(world.clusters).toHaveLength(0);
});
