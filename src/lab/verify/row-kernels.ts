/** Checks the kernels that process rows independently against float64: embedding, RMSNorm, GEMM and SwiGLU. */
import { packUniform } from '../../gpu/uniforms.ts';
import { formOf, GEMM_FORMS, type GemmKernel, requirementsOf } from '../../model/kernels/gemm-forms.ts';
import { type AdapterForm, gemmForms } from '../../model/kernels/kernel-variants.ts';
import { denseMatrix, gatedActivation, linear, rmsNorm } from '../../model/oracle/oracle-math.ts';
import { type Matrix, pad4 } from '../../model/types.ts';
import { matricesOf, plainProduct } from '../../model/weights/matrices.ts';
import { PANEL_COLUMNS } from '../../model/weights/panels.ts';
import type { KernelBench } from './kernel-bench.ts';
import {
  DTYPES,
  type Finding,
  type KernelCheck,
  largestError,
  padded,
  type RandomNumbers,
} from './kernel-cases.ts';

/** For single precision, over some thousand terms. */
const BOUND = 2e-5;
/**
 * Bound for f16 products: six roundings per term (see products_f16.wgsl). Values are below 1 and weights below 1 / √terms, so
 * the sum is below √terms. The slack covers values below the range of f16.
 */
export const halvesBound = (terms: number): number => 6.1 * 2 ** -11 * Math.sqrt(terms);
/** One, several, and more than any tile; no multiples of a tile. */
const ROW_COUNTS = [1, 5, 21];
const MOST_ROWS = 21;
/** Most elements of a checked matrix. Of larger ones, only the first columns are used. */
export const MAX_ELEMENTS = 2 ** 22;

const step = (rows: number, logitRows = 0): ArrayBuffer =>
  packUniform('step', { rows, logit_rows: logitRows });

/** The workgroup size of the portable form, which is last; for kernels with only one form. */
const workgroupOf = ({ forms }: KernelBench): number => forms.at(-1)!.workgroup;

const fewerColumns = (inputs: number, columns: number): number =>
  Math.min(columns, Math.max(4, Math.floor(MAX_ELEMENTS / inputs)));

export const embedding: KernelCheck = {
  name: 'embedding',
  async measure(bench, shape, random) {
    const WORKGROUP = workgroupOf(bench);
    const findings: Finding[] = [];
    const { name, architecture } = shape;
    const { hiddenSize } = architecture;
    const vocabSize = fewerColumns(hiddenSize, architecture.vocabSize);
    for (const dtype of DTYPES) {
      const matrix = random.matrix(hiddenSize, vocabSize, dtype);
      const ids = [0, vocabSize - 1, ...Array.from({ length: 7 }, () => random.below(vocabSize))];
      const kernel = await bench.library.get('embedding', {
        WORKGROUP,
        WEIGHTS_F32: Number(dtype === 'f32'),
      });
      const hidden4 = pad4(hiddenSize) / 4;
      const [x] = await bench.run(
        kernel,
        [
          Uint32Array.from(ids.flatMap((id) => [id, 0, 0, 0])),
          matrix.data,
          new Float32Array(4 * hidden4 * ids.length),
          packUniform('embedding', {
            hidden4,
            vocab4: pad4(vocabSize) / 4,
            first: 0,
            scale: 1,
            panel: PANEL_COLUMNS,
          }),
          step(ids.length),
        ],
        [Math.ceil(hidden4 / WORKGROUP), ids.length],
      );
      const { data } = denseMatrix(matrix);
      const expected = ids.flatMap((id) => [...data.subarray(id * hiddenSize, (id + 1) * hiddenSize)]);
      const error = largestError(new Float32Array(x!), padded(expected, hiddenSize));
      findings.push({ what: `${dtype}, ${name}`, error, bound: 0 });
    }
    return findings;
  },
};

const NORMS = [
  { what: 'alone', ADD: 0, GATHER: 0 },
  { what: 'added to the residual', ADD: 1, GATHER: 0 },
  { what: 'of gathered rows', ADD: 0, GATHER: 1 },
] as const;

export const rms: KernelCheck = {
  name: 'rms_norm',
  async measure(bench, shape, random) {
    const findings: Finding[] = [];
    const { name, architecture } = shape;
    const { hiddenSize, rmsNormEps } = architecture;
    for (const { what, ...variant } of NORMS) {
      const kernel = await bench.library.get('rmsNorm', { SUMS: workgroupOf(bench), ...variant });
      const x = random.values(MOST_ROWS * hiddenSize);
      const weight = random.values(hiddenSize);
      const rows = variant.GATHER ? [19, 0, 7] : Array.from({ length: MOST_ROWS }, (_, row) => row);
      const residual = random.values(rows.length * hiddenSize);
      const [out] = await bench.run(
        kernel,
        [
          padded(x, hiddenSize),
          padded(weight, hiddenSize),
          Uint32Array.from(rows),
          padded(residual, hiddenSize),
          packUniform('rmsNorm', {
            hidden: hiddenSize,
            hidden4: pad4(hiddenSize) / 4,
            eps: rmsNormEps,
          }),
          step(MOST_ROWS, rows.length),
        ],
        [rows.length, 1],
      );
      const normed = rmsNorm(Float64Array.from(x), weight, rmsNormEps);
      const expected = rows
        .flatMap((row) => [...normed.subarray(row * hiddenSize, (row + 1) * hiddenSize)])
        .map((value, i) => (variant.ADD ? value + residual[i]! : value));
      const error = largestError(new Float32Array(out!), padded(expected, hiddenSize));
      findings.push({ what: `${what}, ${name}`, error, bound: BOUND });
    }
    return findings;
  },
};

/** Matrices checked with a bias, whether or not the model has one. */
const BIASED = ['qkv', 'gate up'];

/** Checks every GEMM form of this name that may be chosen, for all row counts. */
export const gemm = (name: string, kernelName: GemmKernel, form: AdapterForm): KernelCheck => ({
  name,
  async measure(bench, shape, random) {
    const findings: Finding[] = [];
    const { name, architecture } = shape;
    for (const [matrixName, { inputs, outputs }] of Object.entries(matricesOf(architecture))) {
      for (const dtype of DTYPES) {
        if (requirementsOf(kernelName).halves && dtype === 'f32') continue;
        const matrix = random.matrix(inputs, fewerColumns(inputs, outputs), dtype);
        const error = await gemmError(bench, kernelName, form, matrix, BIASED.includes(matrixName), random);
        if (error === null) continue;
        const what = `${dtype}, ${inputs} x ${matrix.columns} of ${name}`;
        findings.push({ what, error, bound: bench.arithmetic === 'f16' ? halvesBound(inputs) : BOUND });
      }
    }
    return findings;
  },
});

/** The largest error over all variants and row counts; null: no variant accepts such a matrix. */
async function gemmError(
  bench: KernelBench,
  kernelName: GemmKernel,
  form: AdapterForm,
  matrix: Matrix,
  useBias: boolean,
  random: RandomNumbers,
): Promise<number | null> {
  const { rows: inputs, columns } = matrix;
  const a = random.values(MOST_ROWS * inputs);
  const bias = random.values(columns);
  const all = linear(Float64Array.from(a), MOST_ROWS, denseMatrix(matrix), useBias ? bias : null);
  const columns4 = pad4(columns) / 4;
  const forms = GEMM_FORMS.filter((chosen) => formOf(chosen).name === kernelName);
  const odd = columns4 % 2 !== 0;
  if (odd && requirementsOf(kernelName).evenColumns) return null;
  const variants = forms.flatMap((chosen) =>
    gemmForms(bench.library, form, matrix.dtype === 'f32', chosen, odd),
  );
  await Promise.all(variants.map(({ kernel }) => bench.library.make(kernel)));
  let error = 0;
  for (const { kernel, rows: tileRows, columns4: tileColumns4 } of variants) {
    for (const rows of ROW_COUNTS) {
      const [out] = await bench.run(
        kernel,
        [
          padded(a.subarray(0, rows * inputs), inputs),
          matrix.data,
          padded(bias, columns),
          new Float32Array(4),
          packUniform('gemm', { ...plainProduct(pad4(inputs) / 4, columns4), use_bias: Number(useBias) }),
          step(rows),
          new Float32Array(rows * pad4(columns)),
        ],
        [Math.ceil(columns4 / tileColumns4), Math.ceil(rows / tileRows)],
      );
      const expected = padded(all.subarray(0, rows * columns), columns);
      error = Math.max(error, largestError(new Float32Array(out!), expected));
    }
  }
  return error;
}

export const activation: KernelCheck = {
  name: 'swiglu',
  async measure(bench, shape, random) {
    const WORKGROUP = workgroupOf(bench);
    const { name, architecture } = shape;
    const width = architecture.intermediateSize;
    const width4 = pad4(width) / 4;
    const gateUp = random.values(MOST_ROWS * 2 * width).map((value) => 6 * value);
    const findings: Finding[] = [];
    for (const gate of ['silu', 'gelu'] as const) {
      const kernel = await bench.library.get('swiglu', { WORKGROUP, GELU: Number(gate === 'gelu') });
      const [out] = await bench.run(
        kernel,
        [
          padded(gateUp, 2 * width),
          new Float32Array(MOST_ROWS * 4 * width4),
          packUniform('swiglu', { width, width4, stride4: pad4(2 * width) / 4 }),
          step(MOST_ROWS),
        ],
        [Math.ceil(width4 / WORKGROUP), MOST_ROWS],
      );
      const product = gatedActivation(Float64Array.from(gateUp), MOST_ROWS, width, gate);
      const error = largestError(new Float32Array(out!), padded(product, width));
      findings.push({ what: `${gate}, ${name}`, error, bound: BOUND });
    }
    return findings;
  },
};
