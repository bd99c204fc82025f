/** Devices for the GPU tests, on their adapter (test/adapter.ts). */
import type { Arithmetic } from '../../src/config/arithmetic.ts';
import type { GpuDevice } from '../../src/gpu/device.ts';
import { openDevice } from '../../src/model/open-device.ts';
import { type Driver, selectDriver } from '../../src/platform/node/drivers.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { TEST_ADAPTER } from '../adapter.ts';

let selected: Promise<void> | null = null;

export async function openTestDevice(
  bufferBytes = 0,
  subgroups = true,
  arithmetic: Arithmetic = 'f32',
  nextPoll: (() => Promise<void>) | null = null,
): Promise<GpuDevice> {
  selected ??= selectDriver((TEST_ADAPTER === 'gpu' ? 'system' : TEST_ADAPTER) as Driver);
  await selected;
  const needs = { bufferBytes, subgroups, arithmetic };
  const platform = { ...nodePlatform, polls: nextPoll && (() => nextPoll) };
  return openDevice(platform, await nodePlatform.createGpu(), needs);
}

/** Whether this adapter supports f16 arithmetic. */
export async function hasF16(): Promise<boolean> {
  const gpu = await openTestDevice();
  gpu.destroy();
  return gpu.report.features.includes('shader-f16');
}

/** Whether GPU kernels are tested on this adapter. Not on SwiftShader, which compiles them slowly; lavapipe covers them. */
export const triesGpuKernels = ({ report }: GpuDevice): boolean =>
  !report.software || (report.subgroupSize ?? 0) >= 8;

const SPLIT_ON_CPUS = [
  [1, 4],
  [4, 8],
] as const;
const SPLIT_ON_GPUS = [...SPLIT_ON_CPUS, [1, 8], [4, 4]] as const;

/** Forms of gemm_split.wgsl. A software adapter takes 6 to 12 s to compile one, so it tests each size only once. */
export const splitForms = ({ report }: GpuDevice) =>
  (report.software ? SPLIT_ON_CPUS : SPLIT_ON_GPUS).map(([rows, eights]) => ({
    kernel: 'gemmSplit' as const,
    overrides: { ROWS: rows, EIGHTS: eights },
    rows,
    columns4: 2 * eights,
  }));

/** A device for each arithmetic that this adapter supports. */
export async function openEachArithmetic(): Promise<Record<Arithmetic, GpuDevice | null>> {
  const f16 = (await hasF16()) ? await openTestDevice(0, true, 'f16') : null;
  return { f32: await openTestDevice(), f16 };
}

export const readShader = nodePlatform.readShader;
