import { describe, expect, it } from 'vitest';
import { AdapterError } from '../../src/errors.ts';
import type { GpuDevice } from '../../src/gpu/device.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { enoughBlockedFrom, fastestOf, tuneGemm } from '../../src/model/kernels/autotune.ts';
import {
  defaultChoice,
  describeChoice,
  GEMM_FORMS,
  gemmCandidates,
  ROW_CLASSES,
} from '../../src/model/kernels/gemm-forms.ts';
import { adapterForm } from '../../src/model/kernels/kernel-variants.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { openTestDevice } from '../gpu/adapter.ts';

/** Runs with the given durations in milliseconds, and a clock that only they advance. */
function runsOf(times: readonly (readonly number[])[]) {
  let now = 0;
  const turns = times.map(() => 0);
  const runs = times.map((ms, i) => async () => {
    const took = ms[Math.min(turns[i]!++, ms.length - 1)]!;
    now += took;
    return took;
  });
  return { runs, clock: { now: () => now }, turns };
}

describe('autotune', () => {
  it('chooses the fastest by median, ignoring the first run, which compiles', async () => {
    const { runs, clock } = runsOf([
      [1, 10],
      [900, 5, 5, 40, 5],
      [1, 8],
    ]);
    expect(await fastestOf(runs, clock)).toBe(1);
  });

  it('keeps the first unless another is clearly faster', async () => {
    const { runs, clock } = runsOf([[10], [9.7]]);
    expect(await fastestOf(runs, clock)).toBe(0);
  });

  it('stops soon after its time limit, however slow the adapter is', async () => {
    const { runs, clock, turns } = runsOf([[1000], [1000], [1000]]);
    await fastestOf(runs, clock);
    expect(turns).toEqual([4, 4, 4]);
  });

  it('rejects a model whose weights are too large for the adapter before it creates any kernel', async () => {
    const limits = { maxBufferSize: 2 ** 32, maxStorageBufferBindingSize: 2 ** 27 };
    const gpu = { report: { name: 'Nobody', limits } } as unknown as GpuDevice;
    const architecture = { ...presetArchitecture('nano'), hiddenSize: 4096, intermediateSize: 11_008 };
    const readShader = () => Promise.reject(new Error('no kernel is wanted'));
    const tuned = tuneGemm({ gpu, readShader, architecture, weightDtype: 'f16', clock: systemClock });
    await expect(tuned).rejects.toThrow(AdapterError);
    await expect(tuned).rejects.toThrow(
      "nano does not fit Nobody: its weights 'gate up' have 180355072 bytes",
    );
  });

  it('keeps the defaults of a GPU for matrices with odd numbers of vec4 columns, which other forms compute', async () => {
    const gpu = await openTestDevice();
    Object.assign(gpu, { report: { ...gpu.report, software: false } });
    const architecture = { ...presetArchitecture('nano'), hiddenSize: 20, intermediateSize: 6 };
    const readShader = () => Promise.reject(new Error('no kernel is wanted'));
    const tuned = await tuneGemm({ gpu, readShader, architecture, weightDtype: 'f16', clock: systemClock });
    expect(tuned).toEqual(defaultChoice(adapterForm(gpu.report)));
    gpu.destroy();
  });

  it('lets the blocked form compute what occupies the GPU, from the times of both forms for few rows', () => {
    // Twice as slow with 16 workgroups, and no slower with 32: equal at 32.
    expect(enoughBlockedFrom(1, 2, 16)).toBe(32);
    expect(enoughBlockedFrom(45.7, 175.5, 16)).toBe(61);
    expect(enoughBlockedFrom(1, 0.1, 16)).toBe(16);
    expect(enoughBlockedFrom(0.001, 1, 16)).toBe(128);
  });

  it('is described with the workgroups from which the blocked form computes', () => {
    const choice = defaultChoice(adapterForm({ subgroupSize: 32, software: false }));
    const forms = 'gemmSplit 1 (1 row), gemmSplit 4 (to 4), gemmSplit 4 (to 16), gemmBlocked 64';
    expect(describeChoice(choice)).toBe(`${forms} (more)`);
    expect(describeChoice({ ...choice, enoughBlocked: 61 })).toBe(`${forms} (more, from 61 workgroups)`);
  });

  it('measures only existing forms, with the default form of the adapter first', () => {
    for (const lanes of [null, 4, 8, 32, 64]) {
      const form = adapterForm({ subgroupSize: lanes, software: false });
      const candidates = gemmCandidates(form);
      for (const rows of ROW_CLASSES) {
        expect(GEMM_FORMS).toEqual(expect.arrayContaining([...candidates[rows]]));
        expect(defaultChoice(form)[rows]).toBe(candidates[rows][0]);
      }
    }
  });
});
