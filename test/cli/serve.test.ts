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
  expect(options.connector.recomputeThreshold).toBe(64);
  world.interrupt();
  expect(await ended).toBe(0);
});
