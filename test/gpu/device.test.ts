import { expect, it } from 'vitest';
import { EngineDeadError } from '../../src/errors.ts';
import { openTestDevice } from './adapter.ts';

it('a device that ends while submits are under way ends them, asks nothing more, and tells when all has settled', async () => {
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
  const submit = () => gpu.run([gpu.device.createCommandEncoder().finish()]).catch((error: unknown) => error);
  await submit();
  expect([asked, settled]).toEqual([1, 1]);

  const ended = [submit(), submit()];
  gpu.destroy('the test ended it');
  for (const error of await Promise.all(ended)) expect(error).toBeInstanceOf(EngineDeadError);
  await gpu.settled();
  expect([asked, settled]).toEqual([3, 3]);
  expect(() => gpu.run([])).toThrow(EngineDeadError);
  expect(asked).toBe(3);
});

it('asks for no subgroups, and reports none, where an engine is to do without', async () => {
  const gpu = await openTestDevice(0, false);
  expect(gpu.report.subgroupSize).toBeNull();
  expect(gpu.device.features.has('subgroups')).toBe(false);
  gpu.destroy();
});
