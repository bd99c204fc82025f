/** The arithmetic that `--arithmetic auto` chooses, by the adapter's features and earlier measurements. */
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { tuning, tuningKey } from '../../src/cli/node/node-tuning.ts';
import { tuningFile, writeF16Speed, writeTuning } from '../../src/cli/node/tuning-cache.ts';
import type { Arithmetic } from '../../src/config/arithmetic.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { defaultChoice } from '../../src/model/kernels/gemm-forms.ts';
import { adapterForm } from '../../src/model/kernels/kernel-variants.ts';
import type { ProbedAdapter } from '../../src/platform/node/drivers.ts';
import { testOptions } from '../e2e/cluster-fixture.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'kvferry-tuning-'));
  vi.stubEnv('XDG_CACHE_HOME', folder);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

const adapterWith = (...features: string[]): ProbedAdapter => ({
  ...{ driver: { kind: 'gpu' } as never, vendor: 'nobody', architecture: 'none', name: 'Nobody' },
  ...{ software: false, features, subgroupMinSize: 32, subgroupMaxSize: 32 },
  ...{ maxBufferSize: 2 ** 30, maxStorageBufferBindingSize: 2 ** 30 },
});

/** The choice if f16 was measured to be `f16Speed` times as fast as f32. No device is opened. */
async function chosen(arithmetic: Arithmetic | 'auto', adapter: ProbedAdapter, f16Speed: number) {
  const { weightDtype } = testOptions;
  for (const each of ['f32', 'f16'] as const) {
    const key = await tuningKey(presetArchitecture('nano'), weightDtype, adapter, each);
    await writeTuning(tuningFile(), key, defaultChoice(adapterForm({ subgroupSize: 32, software: false })));
    if (each === 'f16') await writeF16Speed(tuningFile(), key, f16Speed);
  }
  return tuning({ ...testOptions, arithmetic }, adapter, false);
}

it('auto is f16 if the adapter has shader-f16 and f16 is faster', async () => {
  expect(await chosen('auto', adapterWith('shader-f16'), 1.5)).toMatchObject({
    arithmetic: 'f16',
    gemm: { f16Speed: 1.5, source: 'cached' },
  });
});

it('auto is f32 if the adapter has shader-f16 and f16 is no faster', async () => {
  expect(await chosen('auto', adapterWith('shader-f16'), 1)).toMatchObject({
    arithmetic: 'f32',
    gemm: { f16Speed: 1 },
  });
});

it('auto is f32 if the adapter has no shader-f16, whatever was measured before', async () => {
  const { arithmetic, gemm } = await chosen('auto', adapterWith('subgroups'), 1.5);
  expect(arithmetic).toBe('f32');
  expect(gemm).not.toHaveProperty('f16Speed');
});

it('f32 or f16 is used if asked for', async () => {
  for (const arithmetic of ['f32', 'f16'] as const)
    expect((await chosen(arithmetic, adapterWith('shader-f16'), 1.5)).arithmetic).toBe(arithmetic);
});
