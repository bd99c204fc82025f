/**
 * Chooses the forms of the matrix kernel by measuring them on the largest matrix of a layer. Takes about half a second
 * in addition to the driver's compile time. It does not know where choices are cached.
 */
import type { Clock } from '../../engine/types.ts';
import type { GpuDevice } from '../../gpu/device.ts';
import { type Kernel, KernelLibrary, type ReadShader } from '../../gpu/kernels.ts';
import { repeatsFor, timeSubmit } from '../../gpu/timing.ts';
import { uniformBuffer } from '../../gpu/uniforms.ts';
import { quantile } from '../../measure/statistics.ts';
import { type Architecture, pad4, type WeightDtype } from '../types.ts';
import { matricesOf, plainProduct } from '../weights/matrices.ts';
import { checkLargestWeight } from '../weights/weight-sizes.ts';
import {
  choiceOf,
  formOf,
  type GemmChoice,
  type GemmForm,
  gemmCandidates,
  ROW_CLASSES,
  type RowClass,
  requirementsOf,
} from './gemm-forms.ts';
import {
  type AdapterForm,
  adapterForm,
  type GemmVariant,
  gemmFor,
  gemmForms,
  gemmVariants,
  serves,
} from './kernel-variants.ts';

/** Rows at which each class is measured. */
const MEASURED_ROWS: Readonly<Record<RowClass, number>> = { 1: 1, 4: 4, 16: 16, more: 64 };
/**
 * Target milliseconds of a submit. Forms are repeated until the first one takes this long, so that submission overhead
 * does not decide.
 */
const SUBMIT_MS = 2;
/** Milliseconds for the rounds of one class, all forms together. */
const CLASS_MS = 120;
const LEAST_ROUNDS = 3;
const MOST_ROUNDS = 15;
/** Bounds of the workgroups that the blocked form needs, so that a wrong measurement costs little. */
const LEAST_BLOCKED = 16;
const MOST_BLOCKED = 128;
/** A form replaces the default only if its time is below this fraction of the default's. Smaller gains are noise. */
const WORTH_IT = 0.95;

/** Inputs and outputs of the matrix that forms are measured on. */
export const tunedMatrix = (architecture: Architecture): MatrixSize => sizeOf(architecture, 'gate up');

interface MatrixSize {
  k: number;
  n: number;
}

function sizeOf(architecture: Architecture, name: 'gate up' | 'down'): MatrixSize {
  const { inputs, outputs } = matricesOf(architecture)[name];
  return { k: pad4(inputs), n: pad4(outputs) };
}

/** What forms are measured on: an otherwise idle device, and a model's shape. */
export interface TuningGround {
  gpu: GpuDevice;
  readShader: ReadShader;
  architecture: Architecture;
  weightDtype: WeightDtype;
  clock: Clock;
}

/**
 * Measures in the arithmetic that the device was opened for. Throws AdapterError if the adapter has no room for the
 * model's largest matrix, and InternalError if a form does not compile.
 */
export async function tuneGemm(ground: TuningGround): Promise<GemmChoice> {
  const matrix = new TunedMatrix(ground, tunedMatrix(ground.architecture));
  const candidates = gemmCandidates(matrix.form);
  try {
    const chosen = {} as Record<RowClass, GemmForm>;
    for (const rows of ROW_CLASSES) {
      const forms = candidates[rows].filter((form) => matrix.serves(form));
      const works = await Promise.all(forms.map((form) => matrix.work(matrix.variantsOf(form), rows)));
      const place = works.length < 2 ? 0 : await fastestOf(await inSubmits(works), ground.clock);
      // If no candidate of this class takes f32 weights or an odd number of columns, a substitute is chosen later.
      chosen[rows] = forms[place] ?? candidates[rows][0]!;
    }
    const choice = choiceOf((rows) => chosen[rows]);
    if (!matrix.form.waits || ground.weightDtype === 'f32') return choice;
    const enoughBlocked = await measureEnoughBlocked(ground);
    return enoughBlocked === null ? choice : { ...choice, enoughBlocked };
  } finally {
    matrix.destroy();
  }
}

/** See GemmChoice.enoughBlocked. null if down has an odd number of vec4 columns, which the split form does not take. */
async function measureEnoughBlocked(ground: TuningGround): Promise<number | null> {
  const size = sizeOf(ground.architecture, 'down');
  const matrix = new TunedMatrix(ground, size);
  try {
    if (!matrix.serves('gemmSplit 4')) return null;
    const forms = ['gemmSplit 4', 'gemmBlocked 64'] as const;
    const variants = forms.map((form) => matrix.variantsOf(form));
    const works = await Promise.all(variants.map((form) => matrix.work(form, 'more')));
    const [split, blocked] = await mediansOf(await inSubmits(works), ground.clock);
    return enoughBlockedFrom(split!, blocked!, matrix.workgroupsOf(variants[1]!, 'more'));
  } finally {
    matrix.destroy();
  }
}

/**
 * From the times of both forms for the same few rows. The blocked form takes as long for more rows, until its workgroups
 * occupy the GPU; the split form's time grows with the rows. So they are equal at as many times the workgroups as the
 * blocked form takes longer.
 */
export function enoughBlockedFrom(splitMs: number, blockedMs: number, workgroups: number): number {
  const equalAt = Math.round((workgroups * blockedMs) / splitMs);
  return Math.min(Math.max(equalAt, LEAST_BLOCKED), MOST_BLOCKED);
}

/**
 * How many times as fast `second` is as `first`, each with its own choice, measured in alternation. Geometric mean over
 * the row classes.
 */
export async function compareSpeed(
  first: { ground: TuningGround; choice: GemmChoice },
  second: { ground: TuningGround; choice: GemmChoice },
): Promise<number> {
  const matrices: TunedMatrix[] = [];
  try {
    const sides = [first, second].map(({ ground, choice }) => {
      const matrix = new TunedMatrix(ground, tunedMatrix(ground.architecture));
      matrices.push(matrix);
      return { matrix, variants: matrix.variantsWith(choice) };
    });
    let logs = 0;
    for (const rows of ROW_CLASSES) {
      const works = await Promise.all(sides.map(({ matrix, variants }) => matrix.work(variants, rows)));
      const [one, other] = await mediansOf(await inSubmits(works), first.ground.clock);
      logs += Math.log(one! / other!);
    }
    return Math.exp(logs / ROW_CLASSES.length);
  } finally {
    for (const matrix of matrices) matrix.destroy();
  }
}

/** Whether the speed-up exceeds noise. */
export const isWorthIt = (speed: number): boolean => 1 / speed < WORTH_IT;

/** Milliseconds of one dispatch, averaged over a submit of `repeats`. */
type Work = (repeats: number) => Promise<number>;

/** Each work as one submit, with as many repeats as the first work needs to take SUBMIT_MS. */
async function inSubmits(works: readonly Work[]): Promise<(() => Promise<number>)[]> {
  const [first] = works;
  await first!(1);
  const repeats = await repeatsFor(SUBMIT_MS, first!);
  return works.map((work) => () => work(repeats));
}

/** A matrix of this size on a device, on which forms run. */
class TunedMatrix {
  readonly form: AdapterForm;
  readonly #ground: TuningGround;
  readonly #library: KernelLibrary;
  readonly #columns4: number;
  readonly #inputs: readonly GPUBuffer[];
  readonly #out: GPUBuffer;
  readonly #buffers: GPUBuffer[] = [];

  constructor(ground: TuningGround, { k, n }: MatrixSize) {
    const { gpu, readShader, architecture, weightDtype } = ground;
    checkLargestWeight(architecture, weightDtype, gpu.report);
    this.#ground = ground;
    this.form = adapterForm(gpu.report);
    this.#library = new KernelLibrary(gpu, readShader);
    this.#columns4 = n / 4;
    const most = Math.max(...Object.values(MEASURED_ROWS));
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST;
    const zeros = (size: number) => this.#own(gpu.device.createBuffer({ size, usage }));
    const inputs = zeros(4 * most * k);
    const weights = zeros((weightDtype === 'f16' ? 2 : 4) * k * n);
    const bias = zeros(4 * n);
    this.#out = zeros(4 * most * n);
    gpu.zero(...this.#buffers);
    const params = this.#own(uniformBuffer(gpu.device, 'gemm', plainProduct(k / 4, n / 4)));
    this.#inputs = [inputs, weights, bias, bias, params];
  }

  serves(form: GemmForm): boolean {
    const { halves } = requirementsOf(formOf(form).name);
    return !(halves && this.#weightsF32) && this.variantsOf(form).some((one) => serves(one, this.#columns4));
  }

  variantsOf(form: GemmForm): GemmVariant[] {
    return gemmForms(this.#library, this.form, this.#weightsF32, form);
  }

  /** The variants that an engine has with this choice. */
  variantsWith(choice: GemmChoice): GemmVariant[] {
    return gemmVariants(this.#library, this.form, this.#weightsF32, [this.#columns4], choice);
  }

  /** Compiles the variant that serves the class. */
  async work(variants: readonly GemmVariant[], rowClass: RowClass): Promise<Work> {
    const { gpu, clock } = this.#ground;
    const { kernel, x, y } = this.#dispatch(variants, rowClass);
    await this.#library.make(kernel);
    const step = this.#own(
      uniformBuffer(gpu.device, 'step', { rows: MEASURED_ROWS[rowClass], logit_rows: 0 }),
    );
    const bindGroup = this.#library.bind(kernel, 'autotune', [...this.#inputs, step, this.#out]);
    return (repeats) => timeSubmit(gpu, this.#library, [{ kernel, bindGroup, x, y }], repeats, clock);
  }

  workgroupsOf(variants: readonly GemmVariant[], rowClass: RowClass): number {
    const { x, y } = this.#dispatch(variants, rowClass);
    return x * y;
  }

  get #weightsF32(): boolean {
    return this.#ground.weightDtype === 'f32';
  }

  #dispatch(variants: readonly GemmVariant[], rowClass: RowClass): { kernel: Kernel; x: number; y: number } {
    const rows = MEASURED_ROWS[rowClass];
    const { kernel, ...tile } = gemmFor(variants, rows, this.#columns4);
    return { kernel, x: Math.ceil(this.#columns4 / tile.columns4), y: Math.ceil(rows / tile.rows) };
  }

  destroy(): void {
    for (const buffer of this.#buffers) buffer.destroy();
  }

  #own(buffer: GPUBuffer): GPUBuffer {
    this.#buffers.push(buffer);
    return buffer;
  }
}

/** Index of the fastest by median over alternating rounds; 0 unless another is clearly faster. */
export async function fastestOf(
  runs: readonly (() => Promise<number>)[],
  clock: Pick<Clock, 'now'>,
): Promise<number> {
  const medians = await mediansOf(runs, clock);
  const best = medians.indexOf(Math.min(...medians));
  return medians[best]! < WORTH_IT * medians[0]! ? best : 0;
}

/** Medians over alternating rounds, milliseconds. The first run of each compiles and is not counted. */
async function mediansOf(
  runs: readonly (() => Promise<number>)[],
  clock: Pick<Clock, 'now'>,
): Promise<number[]> {
  for (const run of runs) await run();
  const times: number[][] = runs.map(() => []);
  const begun = clock.now();
  for (let round = 0; round < MOST_ROUNDS; round++) {
    if (round >= LEAST_ROUNDS && clock.now() - begun > CLASS_MS) break;
    for (const [i, run] of runs.entries()) times[i]!.push(await run());
  }
  return times.map((ms) => quantile(ms, 0.5));
}
