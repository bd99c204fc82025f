/**
 * Matrix kernels fused with the operations before and after them: checked against float64 and bit for bit against the
 * separate kernels, on memory full of NaN.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ARITHMETICS, type Arithmetic } from '../../src/config/arithmetic.ts';
import type { GpuDevice } from '../../src/gpu/device.ts';
import type { KernelName, Overrides } from '../../src/gpu/kernels.ts';
import { packUniform } from '../../src/gpu/uniforms.ts';
import { ropeThreads } from '../../src/model/kernels/kernel-variants.ts';
import { halfToFloat } from '../../src/model/weights/half.ts';
import { plainProduct } from '../../src/model/weights/matrices.ts';
import { PANEL_COLUMNS } from '../../src/model/weights/panels.ts';
import { openEachArithmetic, splitForms, triesGpuKernels } from './adapter.ts';
import { inPanels, matmul, maxError, randomValues, store } from './reference.ts';
import { runKernel } from './run-kernel.ts';

let devices: Record<Arithmetic, GpuDevice | null>;
/** The device for the test's arithmetic. */
let gpu: GpuDevice;
beforeAll(async () => {
  devices = await openEachArithmetic();
});
afterAll(() => {
  for (const device of Object.values(devices)) device?.destroy();
});

/** SUMS: at least a subgroup of any adapter. */
const [SUMS, WORKGROUP] = [64, 16];
const [INPUTS, INPUTS4, EPS] = [138, 35, 1e-5];
const K = 4 * INPUTS4;
const nothing = new Float32Array(4);
const nan = (values: number) => new Float32Array(values).fill(Number.NaN);
const step = (rows: number) => packUniform('step', { rows, logit_rows: 0 });

interface Form {
  kernel: 'gemmWide' | 'gemmPortable' | 'gemmSplit';
  overrides: Overrides;
  rows: number;
  columns4: number;
}

/** `again`: this fused end was already tested with other overrides in every form. */
function forms({ again = false } = {}): Form[] {
  const lanes = gpu.report.subgroupSize;
  // A software adapter takes 15 s to compile each. In f16 only the products differ, which gemm.test.ts checks.
  const isSlow = gpu.report.software && (again || gpu.report.arithmetic === 'f16');
  const ofGpus = triesGpuKernels(gpu) && !isSlow;
  return [1, 4].flatMap((rows): Form[] => [
    { kernel: 'gemmPortable', overrides: { WORKGROUP, ROWS: rows }, rows, columns4: 2 * WORKGROUP },
    ...(ofGpus ? splitForms(gpu).filter((form) => form.rows === rows) : []),
    ...(lanes && lanes >= 8
      ? [
          {
            kernel: 'gemmWide' as const,
            overrides: { SUBGROUP: lanes, ROWS: rows },
            rows,
            columns4: 2 * lanes,
          },
        ]
      : []),
  ]);
}

/** Rows to normalise, the norm's weights and a matrix; row padding is 0. */
function operands(rows: number, columns: number) {
  const padded = (count: number, seed: number) =>
    randomValues(count * K, seed).map((v, i) => (i % K < INPUTS ? v : 0));
  const [x, norm] = [padded(rows, 1), padded(1, 2)];
  const weights = store(randomValues(K * columns, 3), 'f16');
  const bias = randomValues(columns, 4);
  const normed = x.map((v, i) => {
    const row = Math.floor(i / K);
    const squares = x.subarray(row * K, (row + 1) * K).reduce((sum, each) => sum + each * each, 0);
    return (v / Math.sqrt(squares / INPUTS + EPS)) * norm[i % K]!;
  });
  return {
    x,
    norm,
    weights: inPanels(weights.data, K, columns, PANEL_COLUMNS),
    bias,
    product: matmul(normed, weights.values, bias, rows, K, columns),
  };
}

/** Norm, product and bias, by a fused kernel or by separate ones. `ends`: the bindings after those of the product. */
function runner(form: Form, rows: number, columns: number) {
  const { x, norm, weights, bias, product } = operands(rows, columns);
  const params = { ...plainProduct(INPUTS4, columns / 4), use_bias: 1 };
  const size = [Math.ceil(columns / 4 / form.columns4), Math.ceil(rows / form.rows)] as const;
  const fused = (
    end: 'Gated' | 'Qkv' | '',
    overrides: Overrides,
    ends: Parameters<typeof runKernel>[3],
  ): Promise<ArrayBuffer[]> =>
    runKernel(
      gpu,
      `${form.kernel}${end}` as KernelName,
      { ...form.overrides, NORM: 1, SUMS, ...overrides },
      [
        x,
        weights,
        bias,
        norm,
        packUniform('gemm', { ...params, inputs: INPUTS, eps: EPS }),
        step(rows),
        ...ends,
      ],
      size,
    );
  const apart = async (): Promise<Float32Array> => {
    const [normed] = await runKernel(
      gpu,
      'rmsNorm',
      { SUMS },
      [
        ...[x, norm, new Uint32Array(4), nan(x.length)],
        packUniform('rmsNorm', { hidden: INPUTS, hidden4: INPUTS4, eps: EPS }),
        step(rows),
      ],
      [rows, 1],
    );
    const [out] = await runKernel(
      gpu,
      form.kernel,
      form.overrides,
      [
        ...[new Float32Array(normed!, 0, x.length), weights, bias, nothing],
        ...[packUniform('gemm', params), step(rows), nan(rows * columns)],
      ],
      size,
    );
    return new Float32Array(out!, 0, rows * columns);
  };
  return { fused, apart, product };
}

const bits = (buffer: ArrayBuffer | undefined): Uint32Array => new Uint32Array(buffer!);

const cases = ARITHMETICS.flatMap((arithmetic) => [1, 3].map((rows) => ({ arithmetic, rows })));

describe.each(cases)('a matrix kernel on $rows row(s) in $arithmetic', ({ arithmetic, rows }) => {
  /** Only f32 is compared with float64 here. gemm.test.ts does so for f16, with the separate kernels of the same bits. */
  const isF32 = arithmetic === 'f32';
  beforeEach(({ skip }) => {
    gpu = devices[arithmetic] ?? skip('this adapter has no shader-f16');
  });

  const served = (how = {}) => forms(how).filter((form) => (rows === 1) === (form.rows === 1));

  it('fused with the norm gives the bits of the separate kernels', async () => {
    const columns = 72;
    for (const form of served()) {
      const { fused, apart, product } = runner(form, rows, columns);
      const [out] = await fused('', {}, [nan(rows * columns)]);
      const found = new Float32Array(out!, 0, rows * columns);
      if (isF32) expect(maxError(found, product), form.kernel).toBeLessThan(1e-5 * K);
      expect(found, form.kernel).toEqual(await apart());
    }
  });

  it.each(['silu', 'gelu'] as const)(
    'fused with the norm and a %s gate gives the bits of the separate kernels',
    async (activation) => {
      const [width, GELU] = [96, Number(activation === 'gelu')];
      for (const form of served({ again: GELU === 1 })) {
        const { fused, apart, product } = runner(form, rows, 2 * width);
        const [out] = await fused('Gated', { GELU }, [nan(rows * width)]);
        const expected = Array.from({ length: rows * width }, (_, at) => {
          const from = Math.floor(at / width) * 2 * width + (at % width);
          const [gate, up] = [product[from]!, product[from + width]!];
          const slope = Math.tanh(Math.sqrt(2 / Math.PI) * (gate + 0.044715 * gate ** 3));
          return (GELU ? 0.5 * gate * (1 + slope) : gate / (1 + Math.exp(-gate))) * up;
        });
        if (isF32) expect(maxError(new Float32Array(out!), expected), form.kernel).toBeLessThan(1e-4 * K);
        const [gated] = await runKernel(
          gpu,
          'swiglu',
          { WORKGROUP, GELU },
          [
            ...[await apart(), nan(rows * width)],
            ...[packUniform('swiglu', { width, width4: width / 4, stride4: width / 2 }), step(rows)],
          ],
          [Math.ceil(width / 4 / WORKGROUP), rows],
        );
        expect(bits(out), form.kernel).toEqual(bits(gated));
      }
    },
  );

  it.each([
    [32, 2, 1, 'f16'],
    [48, 2, 1, 'f32'],
    [128, 1, 1, 'f16'],
  ] as const)(
    'fused with norm, RoPE and KV write gives the same bits: head_dim %i, %i query and %i KV heads, %s KV',
    async (headDim, heads, kvHeads, dtype) => {
      const [layer, layers, blockSize, blocks, scale] = [1, 2, 4, 3, 0.25];
      const [half, all] = [headDim / 2, heads + 2 * kvHeads];
      const positions = [3, 0, 5].slice(0, rows);
      const slots = [4 * 2 + 1, 4, 3].slice(0, rows);
      const angle = (position: number, i: number) => position * 10_000 ** ((-2 * (i % half)) / headDim);
      const turns = Float32Array.from({ length: 6 * headDim }, (_, at) => {
        const [position, i] = [Math.floor(at / headDim), at % headDim];
        return (i < half ? Math.cos : Math.sin)(angle(position, i));
      });
      const tokens = Uint32Array.from(positions.flatMap((position, row) => [0, position, slots[row]!, 0]));
      const cacheSize = blocks * layers * 2 * kvHeads * blockSize * headDim;
      const place = (row: number, plane: number, head: number) => {
        const [block, slot] = [Math.floor(slots[row]! / blockSize), slots[row]! % blockSize];
        return ((((block * layers + layer) * 2 + plane) * kvHeads + head) * blockSize + slot) * headDim;
      };
      const overrides = { HEAD_DIM: headDim, BLOCK_SIZE: blockSize, KV_F32: Number(dtype === 'f32') };
      const to = () => [
        ...[turns, tokens, nan(rows * heads * headDim), store(nan(cacheSize), dtype).data],
        packUniform('ropeKvWrite', { heads, kv_heads: kvHeads, layer, layers, scale, eps: EPS }),
      ];
      for (const form of served({ again: headDim === 32 })) {
        const { fused, apart, product } = runner(form, rows, all * headDim);
        const [q, cache] = await fused('Qkv', overrides, to());
        const turned = (row: number, head: number, i: number): number => {
          const at = (row * all + head) * headDim;
          const [cos, sin] = [Math.cos(angle(positions[row]!, i)), Math.sin(angle(positions[row]!, i))];
          const partner = product[at + ((i + half) % headDim)]!;
          return product[at + i]! * cos + (i < half ? -partner : partner) * sin;
        };
        const heads64 = positions.flatMap((_, row) =>
          Array.from(
            { length: heads * headDim },
            (_, i) => scale * turned(row, Math.floor(i / headDim), i % headDim),
          ),
        );
        if (isF32) expect(maxError(new Float32Array(q!), heads64), form.kernel).toBeLessThan(1e-5 * K);
        const kept =
          dtype === 'f32'
            ? new Float32Array(cache!)
            : Float32Array.from(new Uint16Array(cache!), halfToFloat);
        const written = new Set<number>();
        for (const [row] of positions.entries())
          for (let h = 0; h < kvHeads; h++)
            for (let i = 0; i < headDim; i++) {
              const value = product[(row * all + heads + kvHeads + h) * headDim + i]!;
              for (const [plane, expected] of [turned(row, heads + h, i), value].entries()) {
                written.add(place(row, plane, h) + i);
                const error = Math.abs(kept[place(row, plane, h) + i]! - expected);
                if (isF32) expect(error).toBeLessThan(dtype === 'f16' ? 0.01 : 1e-3);
              }
            }
        expect(kept.subarray(0, cacheSize).every((v, i) => Number.isNaN(v) !== written.has(i))).toBe(true);
        const separate = await runKernel(
          gpu,
          'ropeKvWrite',
          { WORKGROUP, ...overrides },
          [await apart(), nothing, ...to(), step(rows)],
          [Math.ceil(ropeThreads(all * headDim, headDim) / WORKGROUP), rows],
        );
        expect(bits(q), form.kernel).toEqual(bits(separate[0]));
        expect(bits(cache), form.kernel).toEqual(bits(separate[1]));
      }
    },
  );
});
