import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { GpuDevice } from '../../src/gpu/device.ts';
import type { KernelName, Overrides } from '../../src/gpu/kernels.ts';
import { packUniform } from '../../src/gpu/uniforms.ts';
import { plainProduct } from '../../src/model/matrices.ts';
import { PANEL_COLUMNS } from '../../src/model/panels.ts';
import { openTestDevice } from './adapter.ts';
import { inPanels, matmul, maxError, randomValues, store } from './reference.ts';
import { runKernel } from './run-kernel.ts';

let gpu: GpuDevice;
beforeAll(async () => {
  gpu = await openTestDevice();
});
afterAll(() => gpu.destroy());

interface Form {
  kernel: KernelName;
  overrides: Overrides;
  rows: number;
  columns4: number;
}

/** Every form that some adapter may choose, as far as this one runs it. */
function forms(): Form[] {
  const tiled = [32, 64].map((rows) => ({
    kernel: 'gemmTiled' as const,
    overrides: { ROWS: rows },
    rows,
    columns4: 16,
  }));
  const portable = [1, 4, 8].map((rows) => ({
    kernel: 'gemmPortable' as const,
    overrides: { WORKGROUP: 32, ROWS: rows },
    rows,
    columns4: 32,
  }));
  const lanes = gpu.report.subgroupSize;
  if (lanes === null) return [...portable, ...tiled];
  const shuffled = [1, 4, 8, 16].map((rows) => ({
    kernel: 'gemm' as const,
    overrides: { SUBGROUP: lanes, ROWS: rows },
    rows,
    columns4: lanes,
  }));
  const wide = [1, 2, 4].map((rows) => ({
    kernel: 'gemmWide' as const,
    overrides: { SUBGROUP: lanes, ROWS: rows },
    rows,
    columns4: 2 * lanes,
  }));
  return [...portable, ...tiled, ...shuffled, ...wide];
}

async function multiply(
  form: Form,
  dtype: 'f16' | 'f32',
  m: number,
  k: number,
  n: number,
  useBias: boolean,
  panel4 = PANEL_COLUMNS / 4,
  residual: Float32Array | null = null,
) {
  const a = randomValues(m * k, 1);
  const w = store(randomValues(k * n, 2), dtype);
  const bias = randomValues(n, 3);
  const [out] = await runKernel(
    gpu,
    form.kernel,
    { ...form.overrides, WEIGHTS_F32: Number(dtype === 'f32') },
    [
      a,
      inPanels(w.data, k, n, 4 * panel4),
      bias,
      new Float32Array(4),
      packUniform('gemm', {
        ...plainProduct(k / 4, n / 4),
        use_bias: Number(useBias),
        add: Number(residual !== null),
        panel4,
      }),
      packUniform('step', { rows: m, logit_rows: 0 }),
      residual ?? new Float32Array(m * n).fill(Number.NaN),
    ],
    [Math.ceil(n / 4 / form.columns4), Math.ceil(m / form.rows)],
  );
  const expected = matmul(a, w.values, useBias ? bias : null, m, k, n);
  return {
    out: new Float32Array(out!, 0, m * n),
    expected: expected.map((v, i) => v + (residual?.[i] ?? 0)),
  };
}

describe('gemm', () => {
  it.each([
    ['f16', 1, 64, 64, false],
    ['f32', 5, 44, 100, true],
    ['f16', 37, 76, 36, true],
    ['f16', 3, 44, 72, true],
    ['f32', 7, 36, 104, false],
    ['f16', 9, 20, 232, true],
  ] as const)(
    '%s weights, %i x %i x %i, bias %s: every form, against float64',
    async (dtype, m, k, n, useBias) => {
      for (const form of forms()) {
        if (form.kernel === 'gemmWide' && n % 8 !== 0) continue;
        const { out, expected } = await multiply(form, dtype, m, k, n, useBias);
        expect(maxError(out, expected), JSON.stringify(form)).toBeLessThan(1e-5 * k);
      }
    },
  );

  it('adds to what is there, after the bias: the same bits in every form', async () => {
    const [m, k, n] = [5, 44, 72];
    const residual = randomValues(m * n, 4);
    const plain = await multiply(forms()[0]!, 'f16', m, k, n, true);
    const sums = plain.out.map((value, i) => value + residual[i]!);
    for (const form of forms()) {
      const { out, expected } = await multiply(form, 'f16', m, k, n, true, PANEL_COLUMNS / 4, residual);
      expect(maxError(out, expected), JSON.stringify(form)).toBeLessThan(1e-5 * k);
      expect(out, JSON.stringify(form)).toEqual(sums);
    }
  });

  it('gives a row the same bits in every form, for any shape, however its weights lie', async () => {
    const size = (most: number) => fc.integer({ min: 1, max: most });
    const shape = fc.tuple(
      size(70),
      size(40),
      size(20),
      fc.boolean(),
      fc.constantFrom('f16', 'f32'),
      fc.constantFrom(16, 1000),
    );
    await fc.assert(
      fc.asyncProperty(shape, async ([m, k4, n8, useBias, dtype, panel4]) => {
        const results = await Promise.all(
          forms().map((form) => multiply(form, dtype as 'f16', m, 4 * k4, 8 * n8, useBias, panel4)),
        );
        results.push(await multiply(forms()[0]!, dtype as 'f16', m, 4 * k4, 8 * n8, useBias, 2 * n8));
        for (const { out } of results) expect(out).toEqual(results[0]!.out);
      }),
      { numRuns: 8 },
    );
  });
});
