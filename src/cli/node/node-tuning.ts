/** Chooses the matrix kernel variants for this machine's adapter: from the cache, or by measuring before engines start. */
import type { Arithmetic } from '../../config/arithmetic.ts';
import type { ClusterOptions } from '../../fleet/types.ts';
import { fixedSubgroupSize } from '../../gpu/adapter-report.ts';
import type { GpuDevice } from '../../gpu/device.ts';
import {
  compareSpeed,
  isWorthIt,
  type TuningGround,
  tunedMatrix,
  tuneGemm,
} from '../../model/kernels/autotune.ts';
import { type GemmTuning, gemmCandidates } from '../../model/kernels/gemm-forms.ts';
import { adapterForm } from '../../model/kernels/kernel-variants.ts';
import { loadArchitecture } from '../../model/load.ts';
import { openDevice } from '../../model/open-device.ts';
import type { Architecture } from '../../model/types.ts';
import { weightSizes } from '../../model/weights/weight-sizes.ts';
import { systemClock } from '../../platform/clock.ts';
import type { ProbedAdapter } from '../../platform/node/drivers.ts';
import { nodePlatform } from '../../platform/node.ts';
import {
  kernelVersion,
  readF16Speed,
  readTuning,
  tuningFile,
  writeF16Speed,
  writeTuning,
} from './tuning-cache.ts';

/** Measures unless the cache has a result; `again` always measures. Throws ConfigError for f16 on an adapter without it. */
export async function tuning(
  options: ClusterOptions,
  adapter: ProbedAdapter,
  again: boolean,
): Promise<{ gemm: GemmTuning; arithmetic: Arithmetic }> {
  const { model, weightDtype, arithmetic = 'f32' } = options;
  const architecture = await loadArchitecture(model, await nodePlatform.openModel(model));
  const tuner = new Tuner(architecture, weightDtype, adapter, again);
  if (arithmetic !== 'auto') return { gemm: await tuner.forms(arithmetic), arithmetic };
  const f32 = await tuner.forms('f32');
  if (!adapter.features.includes('shader-f16')) return { gemm: f32, arithmetic: 'f32' };
  const f16 = await tuner.forms('f16');
  const f16Speed = await tuner.f16Speed(f32, f16);
  return isWorthIt(f16Speed)
    ? { gemm: { ...f16, f16Speed }, arithmetic: 'f16' }
    : { gemm: { ...f32, f16Speed }, arithmetic: 'f32' };
}

/** Cache key: everything that the measurement depends on. */
export async function tuningKey(
  architecture: Architecture,
  weightDtype: ClusterOptions['weightDtype'],
  { name, subgroupMinSize, subgroupMaxSize }: ProbedAdapter,
  arithmetic: Arithmetic,
): Promise<string> {
  const { k, n } = tunedMatrix(architecture);
  const lanes = `${subgroupMinSize ?? 'no'} to ${subgroupMaxSize ?? 'no'} lanes`;
  const version = await kernelVersion(nodePlatform.readShader, arithmetic);
  return `${name}, ${lanes}, ${weightDtype} ${k} x ${n}, kernels ${version}`;
}

class Tuner {
  readonly #architecture: Architecture;
  readonly #weightDtype: ClusterOptions['weightDtype'];
  readonly #adapter: ProbedAdapter;
  readonly #again: boolean;
  readonly #file = tuningFile();

  constructor(
    architecture: Architecture,
    weightDtype: ClusterOptions['weightDtype'],
    adapter: ProbedAdapter,
    again: boolean,
  ) {
    this.#architecture = architecture;
    this.#weightDtype = weightDtype;
    this.#adapter = adapter;
    this.#again = again;
  }

  async forms(arithmetic: Arithmetic): Promise<GemmTuning> {
    const key = await this.#key(arithmetic);
    const { features, subgroupMinSize: min, subgroupMaxSize: max, software } = this.#adapter;
    const form = adapterForm({ subgroupSize: fixedSubgroupSize(features, { min, max }), software });
    const known = this.#again ? null : await readTuning(this.#file, key, gemmCandidates(form));
    if (known) return { choice: known, source: 'cached' };
    this.#say(`which variants of the matrix kernel are fast${arithmetic === 'f16' ? ' in f16' : ''}`);
    const choice = await this.#on([arithmetic], ([ground]) => tuneGemm(ground!));
    await writeTuning(this.#file, key, choice);
    return { choice, source: 'measured' };
  }

  async f16Speed(f32: GemmTuning, f16: GemmTuning): Promise<number> {
    const key = await this.#key('f16');
    const known = this.#again ? null : await readF16Speed(this.#file, key);
    if (known !== null) return known;
    this.#say('whether f16 is faster than f32');
    const speed = await this.#on(['f32', 'f16'], ([first, second]) =>
      compareSpeed({ ground: first!, choice: f32.choice }, { ground: second!, choice: f16.choice }),
    );
    await writeF16Speed(this.#file, key, speed);
    return speed;
  }

  #say(what: string): void {
    process.stderr.write(`measuring ${what} on ${this.#adapter.name} (once; the result is cached)\n`);
  }

  #key(arithmetic: Arithmetic): Promise<string> {
    return tuningKey(this.#architecture, this.#weightDtype, this.#adapter, arithmetic);
  }

  /** Opens a device for each precision, and destroys them afterwards. */
  async #on<T>(
    arithmetics: readonly Arithmetic[],
    measure: (grounds: readonly TuningGround[]) => Promise<T>,
  ): Promise<T> {
    const [architecture, weightDtype] = [this.#architecture, this.#weightDtype];
    const bufferBytes = weightSizes(architecture, weightDtype).largest.bytes;
    const { readShader } = nodePlatform;
    const gpus: GpuDevice[] = [];
    try {
      for (const arithmetic of arithmetics)
        gpus.push(
          await openDevice(nodePlatform, await nodePlatform.createGpu(), { bufferBytes, arithmetic }),
        );
      return await measure(
        gpus.map((gpu) => ({ gpu, readShader, architecture, weightDtype, clock: systemClock })),
      );
    } finally {
      for (const gpu of gpus) gpu.destroy('the autotune has ended');
      for (const gpu of gpus) await gpu.settled();
    }
  }
}
