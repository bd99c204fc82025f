/**
 * Chooses the forms of the matrix kernel by measuring them, on the largest matrix of a model's layer. Takes about half a
 * second beside what the driver needs to compile them; it knows nothing of where a choice is kept.
 */
import type { Clock } from '../engine/types.ts';
import type { GpuDevice } from '../gpu/device.ts';
import { type Dispatch, KernelLibrary, type ReadShader } from '../gpu/kernels.ts';
import { repeatsFor, timeSubmit } from '../gpu/timing.ts';
import { uniformBuffer } from '../gpu/uniforms.ts';
import { quantile } from '../measure/statistics.ts';
import {
  choiceOf,
  type GemmChoice,
  type GemmForm,
  gemmCandidates,
  ROW_CLASSES,
  type RowClass,
} from './gemm-forms.ts';
import { adapterForm, gemmVariant } from './kernel-variants.ts';
import { matricesOf, plainProduct } from './matrices.ts';
import { type Architecture, pad4, type WeightDtype } from './types.ts';

/** Rows that each class is measured at. */
const MEASURED_ROWS: Readonly<Record<RowClass, number>> = { 1: 1, 4: 4, 16: 16, more: 64 };
/** A submit repeats a form until that of the first takes so many milliseconds: what submitting takes must not decide. */
const SUBMIT_MS = 2;
/** Milliseconds for the rounds of one class, all forms together. */
const CLASS_MS = 120;
const LEAST_ROUNDS = 3;
const MOST_ROUNDS = 15;
/** A form must be so much faster than the one that would be taken unmeasured: less is noise. */
const WORTH_IT = 0.95;

/** Inputs and outputs of the matrix that forms are measured on. */
export function tunedMatrix(architecture: Architecture): { k: number; n: number } {
  const { inputs, outputs } = matricesOf(architecture)['gate up'];
  return { k: pad4(inputs), n: pad4(outputs) };
}

/** The device must have nothing else to do. Throws InternalError when a form does not compile. */
export async function tuneGemm(
  gpu: GpuDevice,
  readShader: ReadShader,
  architecture: Architecture,
  weightDtype: WeightDtype,
  clock: Clock,
): Promise<GemmChoice> {
  const form = adapterForm(gpu.report.subgroupSize, gpu.report.software);
  const candidates = gemmCandidates(form);
  const library = new KernelLibrary(gpu, readShader);
  const { k, n } = tunedMatrix(architecture);
  const most = Math.max(...Object.values(MEASURED_ROWS));
  const buffers: GPUBuffer[] = [];
  const own = (buffer: GPUBuffer): GPUBuffer => {
    buffers.push(buffer);
    return buffer;
  };
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST;
  const zeros = (size: number) => own(gpu.device.createBuffer({ size, usage }));
  const inputs = zeros(4 * most * k);
  const weights = zeros((weightDtype === 'f16' ? 2 : 4) * k * n);
  const [bias, out] = [zeros(4 * n), zeros(4 * most * n)];
  gpu.zero(...buffers);
  const params = own(uniformBuffer(gpu.device, 'gemm', plainProduct(k / 4, n / 4)));
  const dispatch = async (chosen: GemmForm, rows: number): Promise<Dispatch> => {
    const variant = gemmVariant(library, form, weightDtype === 'f32', chosen);
    await library.make(variant.kernel);
    const step = own(uniformBuffer(gpu.device, 'step', { rows, logit_rows: 0 }));
    const bindGroup = library.bind(variant.kernel, 'autotune', [
      inputs,
      weights,
      bias,
      bias,
      params,
      step,
      out,
    ]);
    const [x, y] = [Math.ceil(n / 4 / variant.columns4), Math.ceil(rows / variant.rows)];
    return { kernel: variant.kernel, bindGroup, x, y };
  };
  const time = (work: Dispatch, repeats: number) => timeSubmit(gpu, library, [work], repeats, clock);
  const fastest = async (rows: RowClass): Promise<GemmForm> => {
    // The wide form reads pairs of vec4 columns.
    const forms = candidates[rows].filter((f) => (n / 4) % 2 === 0 || !f.startsWith('gemmWide'));
    if (forms.length < 2) return candidates[rows][0]!;
    const works = await Promise.all(forms.map((chosen) => dispatch(chosen, MEASURED_ROWS[rows])));
    await time(works[0]!, 1);
    const repeats = await repeatsFor(SUBMIT_MS, (many) => time(works[0]!, many));
    const runs = works.map((work) => () => time(work, repeats));
    return forms[await fastestOf(runs, clock)]!;
  };
  try {
    const chosen = {} as Record<RowClass, GemmForm>;
    for (const rows of ROW_CLASSES) chosen[rows] = await fastest(rows);
    return choiceOf((rows) => chosen[rows]);
  } finally {
    for (const buffer of buffers) buffer.destroy();
  }
}

/**
 * The place of the fastest by the median of rounds in turn; the first, unless another is clearly faster. The first run of
 * each compiles, and is not counted.
 */
export async function fastestOf(
  runs: readonly (() => Promise<number>)[],
  clock: Pick<Clock, 'now'>,
): Promise<number> {
  for (const run of runs) await run();
  const times: number[][] = runs.map(() => []);
  const begun = clock.now();
  for (let round = 0; round < MOST_ROUNDS; round++) {
    if (round >= LEAST_ROUNDS && clock.now() - begun > CLASS_MS) break;
    for (const [i, run] of runs.entries()) times[i]!.push(await run());
  }
  const medians = times.map((ms) => quantile(ms, 0.5));
  const best = medians.indexOf(Math.min(...medians));
  return medians[best]! < WORTH_IT * medians[0]! ? best : 0;
}
