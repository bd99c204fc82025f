import { expect, it } from 'vitest';
import { AdapterError } from '../../src/errors.ts';
import type { GpuDevice } from '../../src/gpu/device.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { createActivations } from '../../src/model/pass/activations.ts';

it('createActivations rejects a buffer that the adapter cannot bind, and names the option that makes it smaller', () => {
  const limits = { maxBufferSize: 2 ** 32, maxStorageBufferBindingSize: 2 ** 27 };
  const gpu = { report: { name: 'Nobody' }, device: { limits } } as unknown as GpuDevice;
  const make = () =>
    createActivations(gpu, presetArchitecture('nano'), {
      ...{ rows: 16, logitRows: 1, groups: 1, tableEntries: 16, tiles: 16, forbidden: 1, attentionParts: 0 },
      maxModelLen: 2 ** 20 + 1,
    });
  expect(make).toThrow(AdapterError);
  expect(make).toThrow(
    "Nobody binds at most 134217728 bytes (maxStorageBufferBindingSize), but 'rope turns, full' needs 134217856: reduce --max-model-len",
  );
});
