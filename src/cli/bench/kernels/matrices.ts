/** The matrix kernels: shapes of a model at several numbers of rows, and squares to compare with other libraries. */
import { readRate } from '../../../gpu/ceilings.ts';
import { packUniform } from '../../../gpu/uniforms.ts';
import { type AdapterForm, gemmFor, gemmVariants } from '../../../model/kernels/kernel-variants.ts';
import { type Architecture, pad4 } from '../../../model/types.ts';
import { floatToHalf, halfToFloat } from '../../../model/weights/half.ts';
import { matricesOf, plainProduct } from '../../../model/weights/matrices.ts';
import { elementPlace } from '../../../model/weights/panels.ts';
import { systemClock } from '../../../platform/clock.ts';
import { numbers, probes, time, type Workbench } from './workbench.ts';

export interface MatrixCase {
  name: string;
  /** Rows, inputs, outputs. */
  m: number;
  k: number;
  n: number;
}

export interface MatrixFigure extends MatrixCase {
  kernel: string;
  ms: number[];
  gflops: number;
  /** 10^9 bytes of weights per second. */
  weightGbps: number;
  /** GB/s of a dispatch that only reads the same bytes; null: more rows than in decode, where reading is not the limit. */
  readGbps: number | null;
  /** Largest difference from float64, relative to the larger of 1 and the value. */
  error: number;
}

const ROWS = [1, 4, 16, 64, 256, 1024];
const SQUARES = [512, 1024];
/** Numbers of rows for which reading the weights dominates. */
const FEW_ROWS = 4;

export function matrixCases(architecture: Architecture): MatrixCase[] {
  return [
    ...SQUARES.map((size) => ({ name: 'square', m: size, k: size, n: size })),
    // A step needs logits for only a few rows.
    ...Object.entries(matricesOf(architecture)).flatMap(([name, { inputs: k, outputs: n }]) =>
      ROWS.filter((m) => name !== 'lm head' || m <= 16).map((m) => ({ name, m, k, n })),
    ),
  ];
}

export async function measureMatrix(
  bench: Workbench,
  form: AdapterForm,
  shape: MatrixCase,
): Promise<MatrixFigure> {
  const { m, k, n } = shape;
  const columns4 = pad4(n) / 4;
  const variants = gemmVariants(bench.library, form, false, [columns4]);
  const { kernel, rows, columns4: tile } = gemmFor(variants, m, columns4);
  await bench.library.make(kernel);
  const a = numbers(m * pad4(k), 1);
  const weights = Uint16Array.from(numbers(pad4(k) * pad4(n), 2), (value) =>
    floatToHalf(value / Math.sqrt(k)),
  );
  const { ms, output } = await time(bench, {
    kernel,
    inputs: [
      a,
      weights,
      new Float32Array(4),
      new Float32Array(4),
      packUniform('gemm', plainProduct(pad4(k) / 4, columns4)),
      packUniform('step', { rows: m, logit_rows: 0 }),
      new Float32Array(m * pad4(n)),
    ],
    output: 6,
    workgroups: [Math.ceil(columns4 / tile), Math.ceil(m / rows)],
  });
  let error = 0;
  for (const at of probes(m * n)) {
    const [row, column] = [Math.floor(at / n), at % n];
    let sum = 0;
    for (let i = 0; i < pad4(k); i++)
      sum += a[row * pad4(k) + i]! * halfToFloat(weights[elementPlace({ rows: k, columns: n }, i, column)]!);
    const found = output[row * pad4(n) + column]!;
    error = Math.max(
      error,
      Math.abs(found - sum) / Math.max(1, Math.abs(sum)) || (found === sum ? 0 : Infinity),
    );
  }
  const best = Math.min(...ms);
  return {
    ...shape,
    kernel: `${kernel.name} ${rows}`,
    ms,
    gflops: (2 * m * k * n) / best / 1e6,
    weightGbps: (2 * k * n) / best / 1e6,
    readGbps: m <= FEW_ROWS ? await readRate({ ...bench, clock: systemClock }, 2 * k * n) : null,
    error,
  };
}
