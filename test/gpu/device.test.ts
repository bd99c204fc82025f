import { expect, it } from 'vitest';
import { EngineDeadError } from '../../src/errors.ts';
import { openTestDevice } from './adapter.ts';

it('a device that ends while a submit is under way asks nothing more of it, and tells when all has settled', async () => {
  const gpu = await openTestDevice();
  const { queue } = gpu.device;
  let asked = 0;
  let settled = 0;
  const ask = queue.onSubmittedWorkDone.bind(queue);
  Object.defineProperty(queue, 'onSubmittedWorkDone', {
    value: () => {
      asked++;
      return ask().finally(() => settled++);
    },
  });
  const submit = (expectedMs: number) =>
    gpu.run([gpu.device.createCommandEncoder().finish()], { expectedMs }).catch((error: unknown) => error);
  await submit(0);
  expect([asked, settled]).toEqual([1, 1]);

  const ended = [submit(0), submit(10_000)];
  gpu.destroy('the test ended it');
  for (const error of await Promise.all(ended)) expect(error).toBeInstanceOf(EngineDeadError);
  await gpu.settled();
  const askedAtOnce = gpu.report.software ? 1 : 2;
  expect([asked, settled]).toEqual([1 + askedAtOnce, 1 + askedAtOnce]);
});
