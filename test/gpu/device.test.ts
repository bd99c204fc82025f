import { expect, it } from 'vitest';
import { AdapterError, ConfigError, EngineDeadError } from '../../src/errors.ts';
import { GpuDevice } from '../../src/gpu/device.ts';
import { openTestDevice } from './adapter.ts';

it('destroying a device rejects pending submits and later ones, and settled() waits for the pending ones', async () => {
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
  const submit = () =>
    gpu.run([[gpu.device.createCommandEncoder().finish()]]).catch((error: unknown) => error);
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

it('a device that reports only when something is submitted is polled as long as something is pending', async () => {
  let polls = 0;
  let submits = 0;
  const nextPoll = async () => {
    polls++;
    await new Promise((resolve) => setImmediate(resolve));
  };
  const gpu = await openTestDevice(0, true, 'f32', nextPoll);
  const submit = gpu.device.queue.submit.bind(gpu.device.queue);
  gpu.device.queue.submit = (commands) => {
    submits++;
    submit(commands);
  };
  let complete = () => {};
  const pending = new Promise<void>((resolve) => {
    complete = resolve;
  });
  const guarded = [gpu.guard(pending), gpu.guard(pending)];
  await expect.poll(() => submits).toBeGreaterThan(3);
  expect(polls - submits).toBeOneOf([0, 1]);
  complete();
  await Promise.all(guarded);
  await new Promise((resolve) => setTimeout(resolve, 20));
  const [atEnd, before] = [submits, polls];
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect([submits, polls]).toEqual([atEnd, before]);
  await gpu.guard(new Promise<void>((resolve) => setTimeout(resolve, 20)));
  expect(polls).toBeGreaterThan(before);

  const unsettled = gpu.guard(new Promise(() => {}));
  gpu.destroy();
  await expect(unsettled).rejects.toThrow(EngineDeadError);
  const ended = submits;
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(submits - ended).toBeLessThan(2);
});

it('zero() fills a buffer with zeros', async () => {
  const gpu = await openTestDevice();
  const { COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
  const buffer = gpu.device.createBuffer({ size: 64, usage: COPY_SRC | COPY_DST, mappedAtCreation: true });
  new Uint8Array(buffer.getMappedRange()).fill(7);
  buffer.unmap();
  const copy = gpu.device.createBuffer({ size: 64, usage: MAP_READ | COPY_DST });
  gpu.zero(buffer);
  const encoder = gpu.device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, 0, copy, 0, 64);
  await gpu.run([[encoder.finish()]], () => copy.mapAsync(GPUMapMode.READ));
  expect([...new Uint8Array(copy.getMappedRange())]).toEqual(new Array(64).fill(0));
  gpu.destroy();
});

it('a device requests shader-f16 only for f16 arithmetic, and an adapter without it is refused', async () => {
  const usual = await openTestDevice();
  expect(usual.device.features.has('shader-f16')).toBe(false);
  expect(usual.report.arithmetic).toBe('f32');
  const offered = usual.report.features.includes('shader-f16');
  usual.destroy();
  if (offered) {
    const gpu = await openTestDevice(0, true, 'f16');
    expect(gpu.device.features.has('shader-f16')).toBe(true);
    expect(gpu.report.arithmetic).toBe('f16');
    gpu.destroy();
  } else {
    const refused = openTestDevice(0, true, 'f16');
    await expect(refused).rejects.toThrow(ConfigError);
    await expect(refused).rejects.toThrow(
      /^--arithmetic is f16, and .+ has no shader-f16: wanted f32 or auto/,
    );
  }
});

it('an adapter that cannot open a device is reported as an AdapterError with advice', async () => {
  const adapter = {
    info: { vendor: 'v', architecture: 'a', device: 'card', description: '' },
    limits: { maxBufferSize: 2 ** 30, maxStorageBufferBindingSize: 2 ** 30 },
    features: new Set(),
    requestDevice: async () => {
      throw new Error('out of memory');
    },
  };
  const opened = GpuDevice.open({ requestAdapter: async () => adapter } as unknown as GPU, {
    bufferBytes: 0,
  });
  await expect(opened).rejects.toThrow(AdapterError);
  await expect(opened).rejects.toThrow(
    'card opens no device (out of memory): stop other programs that use it',
  );
});

it('a device opened without subgroups neither requests nor reports them', async () => {
  const gpu = await openTestDevice(0, false);
  expect(gpu.report.subgroupSize).toBeNull();
  expect(gpu.device.features.has('subgroups')).toBe(false);
  gpu.destroy();
});

it.each([
  ['vulkan', 'install a Vulkan driver'],
  ['metal', 'check that this machine has a GPU'],
  ['webgpu', 'reload the page, or restart the browser'],
])('without an adapter on %s, it says what to do: %s', async (backend, advice) => {
  const opened = GpuDevice.open({ requestAdapter: async () => null } as GPU, { bufferBytes: 0 }, backend);
  await expect(opened).rejects.toThrow(AdapterError);
  await expect(opened).rejects.toThrow(advice);
});
