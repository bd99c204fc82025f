/** The forms of the matrix kernel for this machine's adapter: from the cache, or measured before the engines start. */
import type { ClusterOptions } from '../fleet/types.ts';
import { GpuDevice } from '../gpu/device.ts';
import { tunedMatrix, tuneGemm } from '../model/autotune.ts';
import type { GemmTuning } from '../model/gemm-forms.ts';
import { loadArchitecture } from '../model/load.ts';
import { weightSizes } from '../model/weight-sizes.ts';
import { systemClock } from '../platform/clock.ts';
import type { ProbedAdapter } from '../platform/node/drivers.ts';
import { nodePlatform } from '../platform/node.ts';
import { kernelVersion, readTuning, tuningFile, writeTuning } from './tuning-cache.ts';

/** Measures, unless the cache knows already; `again`: in any case. */
export async function tuning(
  options: ClusterOptions,
  adapter: ProbedAdapter,
  again: boolean,
): Promise<GemmTuning> {
  const { model, weightDtype } = options;
  const architecture = await loadArchitecture(model, await nodePlatform.openModel(model));
  const { k, n } = tunedMatrix(architecture);
  const { name, subgroupMinSize, subgroupMaxSize } = adapter;
  const lanes = `${subgroupMinSize ?? 'no'} to ${subgroupMaxSize ?? 'no'} lanes`;
  const key = `${name}, ${lanes}, ${weightDtype} ${k} x ${n}, kernels ${await kernelVersion(nodePlatform.readShader)}`;
  const file = tuningFile();
  const known = again ? null : await readTuning(file, key);
  if (known) return { choice: known, source: 'cached' };
  process.stderr.write(`measuring which forms of the matrix kernel are fast on ${name} (once, then kept)\n`);
  const bufferBytes = weightSizes(architecture, weightDtype).largest.bytes;
  const gpu = await GpuDevice.open(await nodePlatform.createGpu(), { bufferBytes }, nodePlatform.backend);
  try {
    const choice = await tuneGemm(gpu, nodePlatform.readShader, architecture, weightDtype, systemClock);
    await writeTuning(file, key, choice);
    return { choice, source: 'measured' };
  } finally {
    gpu.destroy('the autotune has ended');
    await gpu.settled();
  }
}
