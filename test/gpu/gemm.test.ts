import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ARITHMETICS, type Arithmetic } from '../../src/config/arithmetic.ts';
import type { GpuDevice } from '../../src/gpu/device.ts';
import type { KernelName, Overrides } from '../../src/gpu/kernels.ts';
import { packUniform } from '../../src/gpu/uniforms.ts';
import { plainProduct } from '../../src/model/weights/matrices.ts';
import { PANEL_COLUMNS } from '../../src/model/weights/panels.ts';
import { openEachArithmetic, splitForms, triesGpuKernels } from './adapter.ts';
import { f16Bound, inPanels, matmul, maxError, randomValues, store } from './reference.ts';
import { runKernel } from './run-kernel.ts';

let devices: Record<Arithmetic, GpuDevice | null>;
beforeAll(async () => {
  devices = await openEachArithmetic();
});
afterAll(() => {
  for (const device of Object.values(devices)) device?.destroy();
});

interface Form {
  arithmetic: Arithmetic;
  kernel: KernelName;
  overrides: Overrides;
  rows: number;
  columns4: number;
}

/** Whether a form may be skipped: on slow software adapters, where f16 differs from tested f32 forms only in products. */
const isRepeated = (arithmetic: Arithmetic): boolean => arithmetic === 'f16' && devices.f32!.report.software;

/** Every form that sums along k in one go and that some adapter may choose, if this adapter can run it. */
function formsInOne(arithmetic: Arithmetic): Form[] {
  const tiled = [32, 64].map((rows) => ({
    arithmetic,
    kernel: 'gemmTiled' as const,
    overrides: { ROWS: rows },
    rows,
    columns4: 16,
  }));
  const whole = { kernel: 'gemmBlocked' as const, overrides: { WHOLE: 1 }, rows: 64, columns4: 32 };
  const ofGpus = triesGpuKernels(devices.f32!) && !isRepeated(arithmetic) ? [{ arithmetic, ...whole }] : [];
  const portable = [1, 4, 8].map((rows) => ({
    arithmetic,
    kernel: 'gemmPortable' as const,
    overrides: { WORKGROUP: 32, ROWS: rows },
    rows,
    columns4: 32,
  }));
  const lanes = devices.f32!.report.subgroupSize;
  if (lanes === null) return [...portable, ...tiled, ...ofGpus];
  const shuffled = [1, 4, 8, 16].map((rows) => ({
    arithmetic,
    kernel: 'gemm' as const,
    overrides: { SUBGROUP: lanes, ROWS: rows },
    rows,
    columns4: lanes,
  }));
  const wide = [1, 2, 4].map((rows) => ({
    arithmetic,
    kernel: 'gemmWide' as const,
    overrides: { SUBGROUP: lanes, ROWS: rows },
    rows,
    columns4: 2 * lanes,
  }));
  return [...portable, ...tiled, ...ofGpus, ...shuffled, ...wide];
}

/** The forms that sum along k in parts. */
function formsInParts(arithmetic: Arithmetic): Form[] {
  if (!triesGpuKernels(devices.f32!)) return [];
  const split = splitForms(devices.f32!)
    .filter((form) => form.rows > 1 || !isRepeated(arithmetic))
    .map((form) => ({ arithmetic, ...form }));
  return [...split, { arithmetic, kernel: 'gemmBlocked', overrides: { WHOLE: 0 }, rows: 64, columns4: 32 }];
}

/** Groups of forms; all forms of a group give the same bits. */
const groups = (arithmetic: Arithmetic): Form[][] =>
  [formsInOne(arithmetic), formsInParts(arithmetic)].filter((forms) => forms.length > 0);

const forms = (arithmetic: Arithmetic): Form[] => groups(arithmetic).flat();

/** gemmWide and gemmSplit need a multiple of 8 columns, and gemmSplit f16 weights. */
const serves = ({ kernel }: Form, dtype: string, n: number): boolean =>
  (kernel !== 'gemmSplit' || dtype === 'f16') &&
  (n % 8 === 0 || (kernel !== 'gemmWide' && kernel !== 'gemmSplit'));

async function multiply(
  form: Form,
  dtype: 'f16' | 'f32',
  m: number,
  k: number,
  n: number,
  useBias: boolean,
  panel4 = PANEL_COLUMNS / 4,
  residual: Float32Array | null = null,
  a = randomValues(m * k, 1),
) {
  const w = store(randomValues(k * n, 2), dtype);
  const bias = randomValues(n, 3);
  const [out] = await runKernel(
    devices[form.arithmetic]!,
    form.kernel,
    { ...form.overrides, ...(form.kernel !== 'gemmSplit' && { WEIGHTS_F32: Number(dtype === 'f32') }) },
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
    f16Bound: f16Bound(a, w.values, m, k, n),
  };
}

/** The largest error as a share of the f16 bound. */
const f16Share = ({ out, expected, f16Bound }: Awaited<ReturnType<typeof multiply>>): number =>
  maxError(
    out.map((value, i) => (value - expected[i]!) / f16Bound[i]!),
    new Float64Array(out.length),
  );

describe.each(ARITHMETICS)('gemm in %s', (arithmetic) => {
  beforeEach(({ skip }) => {
    if (!devices[arithmetic]) skip('this adapter has no shader-f16');
  });

  it.each([
    ['f16', 1, 64, 64, false],
    ['f32', 5, 44, 100, true],
    ['f16', 37, 76, 36, true],
    ['f16', 3, 44, 72, true],
    ['f32', 7, 36, 104, false],
    ['f16', 9, 20, 232, true],
    ['f16', 2, 332, 40, true],
    ['f16', 9, 1092, 40, true],
  ] as const)(
    'matches float64 in every form: %s weights, %i x %i x %i, bias %s',
    async (dtype, m, k, n, useBias) => {
      for (const form of forms(arithmetic)) {
        if (!serves(form, dtype, n)) continue;
        const product = await multiply(form, dtype, m, k, n, useBias);
        const error = maxError(product.out, product.expected);
        if (arithmetic === 'f32') expect(error, JSON.stringify(form)).toBeLessThan(1e-5 * k);
        else {
          expect(f16Share(product), JSON.stringify(form)).toBeLessThan(1);
          // The products were really in f16, not in f32.
          expect(error, JSON.stringify(form)).toBeGreaterThan(1e-5 * k);
        }
      }
    },
  );

  it('adds the residual after the bias, with the same bits in every form', async () => {
    const [m, k, n] = [5, 44, 72];
    const residual = randomValues(m * n, 4);
    for (const group of groups(arithmetic)) {
      const plain = await multiply(group[0]!, 'f16', m, k, n, true);
      const sums = plain.out.map((value, i) => value + residual[i]!);
      for (const form of group) {
        const { out, expected } = await multiply(form, 'f16', m, k, n, true, PANEL_COLUMNS / 4, residual);
        if (arithmetic === 'f32')
          expect(maxError(out, expected), JSON.stringify(form)).toBeLessThan(1e-5 * k);
        expect(out, JSON.stringify(form)).toEqual(sums);
      }
    }
  });

  it('gives a row the same bits in every form, for any shape and panel width', async () => {
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
        for (const group of groups(arithmetic)) {
          const serving = group.filter((form) => serves(form, dtype, 8 * n8));
          const results = await Promise.all(
            serving.map((form) => multiply(form, dtype as 'f16', m, 4 * k4, 8 * n8, useBias, panel4)),
          );
          results.push(await multiply(serving[0]!, dtype as 'f16', m, 4 * k4, 8 * n8, useBias, 2 * n8));
          for (const { out } of results) expect(out).toEqual(results[0]!.out);
          if (arithmetic === 'f16') expect(f16Share(results[0]!)).toBeLessThan(1);
        }
      }),
      { numRuns: 8 },
    );
  });

  it.each([
    ['beyond the f16 range, mixed with small ones', 1e7, 1e-3],
    ['below the f16 range', 1e-9, 1e-12],
    ['of all magnitudes', 1e30, 1e-30],
  ])('stays within the f16 bound for values %s', async (_, most, least) => {
    const [m, k, n] = [5, 44, 72];
    // Every row and value has a different magnitude; some are zero.
    const a = randomValues(m * k, 5).map((value, i) => {
      const share = ((i * 7919) % 97) / 96;
      return i % 11 === 0 ? 0 : value * least * (most / least) ** share;
    });
    for (const form of forms(arithmetic)) {
      const product = await multiply(form, 'f16', m, k, n, false, PANEL_COLUMNS / 4, null, a);
      expect(f16Share(product), JSON.stringify(form)).toBeLessThan(1);
    }
  });

  it('propagates NaN to its whole row and to no other', async () => {
    const [m, k, n] = [5, 44, 72];
    const a = randomValues(m * k, 6);
    a[2 * k + 17] = Number.NaN;
    for (const form of forms(arithmetic)) {
      const { out } = await multiply(form, 'f16', m, k, n, false, PANEL_COLUMNS / 4, null, a);
      const rows = Array.from({ length: m }, (_, row) => out.subarray(row * n, (row + 1) * n));
      for (const [row, values] of rows.entries())
        expect(values.every(Number.isNaN), JSON.stringify(form)).toBe(row === 2);
    }
  });
});
