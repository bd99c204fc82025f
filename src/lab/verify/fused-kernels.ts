/**
 * Checks the fused matrix kernels for few rows against float64: kernels that normalise their input and, in the same dispatch,
 * rotate q and k and write K and V, or apply the gated activation. If a model does not fuse the second part, checks the
 * kernels that only normalise.
 */
import { packUniform } from '../../gpu/uniforms.ts';
import { type FusedMatrix, fusedKernels } from '../../model/kernels/fused-kernels.ts';
import { type AdapterForm, gemmVariants } from '../../model/kernels/kernel-variants.ts';
import { columnsOf } from '../../model/kernels/pass-kernels.ts';
import { denseMatrix, gatedActivation, linear, rmsNorm } from '../../model/oracle/oracle-math.ts';
import { type Architecture, pad4, type WeightDtype } from '../../model/types.ts';
import { type MatrixName, matricesOf, plainProduct } from '../../model/weights/matrices.ts';
import type { KernelBench, KernelInput } from './kernel-bench.ts';
import {
  DTYPES,
  type Finding,
  type KernelCheck,
  type KernelShape,
  largestError,
  loaded,
  padded,
  type RandomNumbers,
  stored,
} from './kernel-cases.ts';
import { LAYER, LAYERS, pagedStep, placedRows } from './paged-step.ts';
import { HALF_BOUND, turnedRows, turnsTable } from './rope-kernel.ts';
import { halvesBound, MAX_ELEMENTS } from './row-kernels.ts';

const BOUND = 2e-5;
/**
 * Normalised rows, also rotated or gated, have values up to about this many times those with which matrix kernels are
 * checked alone.
 */
const LARGER = 2.5;

/** Checks the kernels that the form uses for few rows, here with any number of rows. */
export const fused = (name: string, form: AdapterForm): KernelCheck => ({
  name,
  async measure(bench, shape, random) {
    const findings: Finding[] = [];
    const { name, blockSize } = shape;
    const architecture = narrower(shape.architecture);
    const narrow = { ...shape, architecture };
    for (const dtype of DTYPES) {
      const gemm = gemmVariants(bench.library, form, dtype === 'f32', columnsOf(architecture));
      const kvF32 = dtype === 'f32';
      const kernels = fusedKernels(bench.library, form, gemm, { architecture, blockSize, kvF32 });
      if (!kernels) continue;
      const product = bench.arithmetic === 'f16' ? LARGER * halvesBound(architecture.hiddenSize) : BOUND;
      const found = (what: string, error: number, bound = product): void => {
        findings.push({ what: `${what}, ${dtype}, ${name}`, error, bound });
      };
      const qkv = await normedProduct(bench, narrow, 'qkv', kernels.qkv, dtype, random);
      if (kernels.qkv.whole) {
        const { q, cache } = turnedRows(narrow, qkv.expected, null);
        for (const [foundQ, foundCache] of qkv.written) {
          found('q', largestError(new Float32Array(foundQ!), q));
          const cached = loaded(foundCache!, dtype, cache.length);
          found('K and V', largestError(cached, cache), product + (dtype === 'f16' ? HALF_BOUND : 0));
        }
      } else found('q, k and v', worstOf(qkv));
      const gateUp = await normedProduct(bench, narrow, 'gate up', kernels.gateUp, dtype, random);
      if (!kernels.gateUp.whole) {
        found('gate and up', worstOf(gateUp));
        continue;
      }
      const { intermediateSize, activation } = architecture;
      const gated = gatedActivation(gateUp.expected, gateUp.rows, intermediateSize, activation);
      for (const [out] of gateUp.written) found('gated', largestError(new Float32Array(out!), gated));
    }
    return findings;
  },
});

interface Product {
  rows: number;
  columns: number;
  /** [rows][columns]. */
  expected: Float64Array;
  /** The buffers written, by variant. */
  written: ArrayBuffer[][];
}

const worstOf = ({ expected, columns, written }: Product): number =>
  Math.max(...written.map(([out]) => largestError(new Float32Array(out!), padded(expected, columns))));

/** Multiplies the paged step's normalised rows by a matrix, with a bias: in float64, and by each kernel variant. */
async function normedProduct(
  bench: KernelBench,
  shape: KernelShape,
  matrixName: MatrixName,
  { variants, whole }: FusedMatrix,
  dtype: WeightDtype,
  random: RandomNumbers,
): Promise<Product> {
  const { architecture } = shape;
  const { hiddenSize, rmsNormEps: eps } = architecture;
  const { inputs, outputs: columns } = matricesOf(architecture)[matrixName];
  const rows = placedRows().length;
  const matrix = random.matrix(inputs, columns, dtype);
  const [x, norm, bias] = [random.values(rows * inputs), random.values(inputs), random.values(columns)];
  const normed = rmsNorm(Float64Array.from(x), norm, eps);
  const expected = linear(normed, rows, denseMatrix(matrix), bias);
  const columns4 = pad4(columns) / 4;
  const params = { ...plainProduct(pad4(inputs) / 4, columns4), use_bias: 1, inputs: hiddenSize, eps };
  const ends = endsOf(shape, whole ? matrixName : null, rows, columns, dtype);
  const written: ArrayBuffer[][] = [];
  for (const { kernel, rows: tileRows, columns4: tileColumns4 } of variants) {
    await bench.library.make(kernel);
    written.push(
      await bench.run(
        kernel,
        [
          ...[padded(x, inputs), matrix.data, padded(bias, columns), padded(norm, inputs)],
          packUniform('gemm', params),
          packUniform('step', { rows, logit_rows: 0 }),
          ...ends,
        ],
        [Math.ceil(columns4 / tileColumns4), Math.ceil(rows / tileRows)],
      ),
    );
  }
  return { rows, columns, expected, written };
}

/** The bindings after those of the product. `whole`: the matrix whose following operations are fused; null: none. */
function endsOf(
  shape: KernelShape,
  whole: MatrixName | null,
  rows: number,
  columns: number,
  dtype: WeightDtype,
): KernelInput[] {
  const { architecture } = shape;
  const { numHeads: heads, numKvHeads: kv_heads, headDim, rmsNormEps: eps } = architecture;
  if (whole === null) return [new Float32Array(rows * pad4(columns))];
  if (whole === 'gate up') return [new Float32Array(rows * architecture.intermediateSize)];
  const { piece, cacheSize } = pagedStep(shape);
  return [
    turnsTable(architecture),
    piece.groups[0].tokens,
    new Float32Array(rows * heads * headDim),
    stored(new Float32Array(cacheSize).fill(Number.NaN), dtype).data,
    packUniform('ropeKvWrite', {
      ...{ heads, kv_heads, layer: LAYER, layers: LAYERS, eps },
      scale: 1 / Math.sqrt(headDim),
    }),
  ];
}

/** The architecture with fewer heads and a narrower MLP if its matrices exceed MAX_ELEMENTS. */
function narrower(architecture: Architecture): Architecture {
  const { hiddenSize, numHeads, numKvHeads, headDim, intermediateSize } = architecture;
  const group = numHeads / numKvHeads;
  const most = (each: number): number => Math.max(1, Math.floor(MAX_ELEMENTS / hiddenSize / each));
  const kvHeads = Math.min(numKvHeads, most((group + 2) * headDim));
  return {
    ...architecture,
    numHeads: group * kvHeads,
    numKvHeads: kvHeads,
    // Whole panels in both halves, as in models of such widths.
    intermediateSize: Math.min(intermediateSize, 64 * most(2 * 64)),
  };
}
