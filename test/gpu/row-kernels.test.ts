/** The kernels that work on rows: embedding, RMSNorm, RoPE with KV write, the gated activation. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { GpuDevice } from '../../src/gpu/device.ts';
import { packUniform } from '../../src/gpu/uniforms.ts';
import { ropeThreads } from '../../src/model/kernels/kernel-variants.ts';
import { halfToFloat } from '../../src/model/weights/half.ts';
import { PANEL_COLUMNS } from '../../src/model/weights/panels.ts';
import { openTestDevice } from './adapter.ts';
import { inPanels, maxError, randomValues, store } from './reference.ts';
import { runKernel } from './run-kernel.ts';

let gpu: GpuDevice;
beforeAll(async () => {
  gpu = await openTestDevice();
});
afterAll(() => gpu.destroy());

const WORKGROUP = 64;
const step = (rows: number, logit_rows = 0) => packUniform('step', { rows, logit_rows });

it.each(['f16', 'f32'] as const)('the embedding kernel reads columns of a matrix in %s', async (dtype) => {
  const [hidden, vocab] = [12, 92];
  const { data, values } = store(randomValues(hidden * vocab, 1), dtype);
  const ids = [7, 0, 91, 64, 63, 7];
  const [x] = await runKernel(
    gpu,
    'embedding',
    { WORKGROUP, WEIGHTS_F32: Number(dtype === 'f32') },
    [
      Uint32Array.from(ids.flatMap((id) => [id, 0, 0, 0])),
      inPanels(data, hidden, vocab, PANEL_COLUMNS),
      new Float32Array(ids.length * hidden),
      packUniform('embedding', {
        hidden4: hidden / 4,
        vocab4: vocab / 4,
        first: 0,
        scale: 1,
        panel: PANEL_COLUMNS,
      }),
      step(ids.length),
    ],
    [1, ids.length],
  );
  const expected = ids.flatMap((id) => Array.from({ length: hidden }, (_, j) => values[j * vocab + id]!));
  expect([...new Float32Array(x!)]).toEqual(expected);
});

it('the embedding kernel scales rows of its vocabulary piece and leaves other rows unchanged', async () => {
  const [hidden, columns, first, scale] = [8, 8, 16, 2.5];
  const values = randomValues(hidden * columns, 1);
  const ids = [15, 16, 23, 24, 0];
  const [x] = await runKernel(
    gpu,
    'embedding',
    { WORKGROUP, WEIGHTS_F32: 1 },
    [
      Uint32Array.from(ids.flatMap((id) => [id, 0, 0, 0])),
      values,
      new Float32Array(ids.length * hidden).fill(7),
      packUniform('embedding', {
        hidden4: hidden / 4,
        vocab4: columns / 4,
        first,
        scale,
        panel: PANEL_COLUMNS,
      }),
      step(ids.length),
    ],
    [1, ids.length],
  );
  const expected = ids.flatMap((id) => {
    const mine = id >= first && id < first + columns;
    return Array.from({ length: hidden }, (_, j) =>
      mine ? Math.fround(scale * values[j * columns + id - first]!) : 7,
    );
  });
  expect([...new Float32Array(x!)]).toEqual(expected);
});

describe('the RMSNorm kernel', () => {
  it.each([
    ['plain', { ADD: 0, GATHER: 0 }],
    ['added to the residual', { ADD: 1, GATHER: 0 }],
    ['of gathered rows', { ADD: 0, GATHER: 1 }],
  ] as const)('matches float64 for a width that is not a multiple of 4: %s', async (_, overrides) => {
    const [rows, hidden, hidden4] = [5, 278, 70];
    const width = 4 * hidden4;
    const padded = (seed: number) =>
      randomValues(rows * width, seed).map((x, i) => (i % width < hidden ? x : 0));
    const [x, residual, weight] = [padded(1), padded(2), padded(3).slice(0, width)];
    const chosen = overrides.GATHER ? [3, 1] : [0, 1, 2, 3, 4];
    const [out] = await runKernel(
      gpu,
      'rmsNorm',
      { SUMS: WORKGROUP, ...overrides },
      [
        x,
        weight,
        Uint32Array.from(overrides.GATHER ? chosen : [0]),
        overrides.ADD ? residual : new Float32Array(chosen.length * width).fill(Number.NaN),
        packUniform('rmsNorm', { hidden, hidden4, eps: 1e-5 }),
        step(rows, 2),
      ],
      [chosen.length, 1],
    );
    const expected = chosen.flatMap((row) => {
      const line = [...x.subarray(row * width, row * width + hidden)];
      const scale = 1 / Math.sqrt(line.reduce((sum, v) => sum + v * v, 0) / hidden + 1e-5);
      return Array.from({ length: width }, (_, i) => {
        const normed = i < hidden ? line[i]! * scale * weight[i]! : 0;
        return normed + (overrides.ADD ? residual[row * width + i]! : 0);
      });
    });
    expect(maxError(new Float32Array(out!), expected)).toBeLessThan(2e-6);
  });
});

it.each([
  ['f16', 16, 4, 2, false, 4],
  ['f32', 64, 3, 1, true, 16],
  ['f16', 20, 3, 1, true, 8],
  ['f32', 4, 2, 2, false, 4],
  ['f16', 256, 4, 1, true, 16],
] as const)(
  'RoPE with KV write matches float64: KV %s, head_dim %i, %i query and %i KV heads, QK norm %s',
  async (dtype, headDim, heads, kvHeads, qkNorm, blockSize) => {
    const [layer, layers, rows, numBlocks] = [1, 3, 6, 5];
    const half = headDim / 2;
    const columns = heads + 2 * kvHeads;
    const qkv = randomValues(rows * columns * headDim, 1);
    const norms = randomValues(2 * headDim, 2);
    const positions = [3, 4, 5, 0, 9, 2];
    const slots = [1, 2, 3, blockSize, 3 * blockSize + 2, 4 * blockSize - 1];
    const angle = (position: number, i: number) => position * 10_000 ** ((-2 * i) / headDim);
    const turns = Float32Array.from({ length: 10 * 2 * half }, (_, at) => {
      const [position, i] = [Math.floor(at / headDim), at % headDim];
      return i < half ? Math.cos(angle(position, i)) : Math.sin(angle(position, i - half));
    });
    const blockValues = layers * 2 * kvHeads * blockSize * headDim;
    const before = store(new Float32Array(numBlocks * blockValues).fill(Number.NaN), dtype).data;
    const [q, cache] = await runKernel(
      gpu,
      'ropeKvWrite',
      {
        WORKGROUP,
        HEAD_DIM: headDim,
        BLOCK_SIZE: blockSize,
        KV_F32: Number(dtype === 'f32'),
        QK_NORM: Number(qkNorm),
      },
      [
        qkv,
        norms,
        turns,
        Uint32Array.from(positions.flatMap((position, row) => [0, position, slots[row]!, 0])),
        new Float32Array(rows * heads * headDim),
        before,
        packUniform('ropeKvWrite', { heads, kv_heads: kvHeads, layer, layers, scale: 0.25, eps: 1e-5 }),
        step(rows),
      ],
      [Math.ceil(ropeThreads(columns * headDim, headDim) / WORKGROUP), rows],
    );
    const turned = (row: number, column: number): number[] => {
      let head = [
        ...qkv.subarray((row * columns + column) * headDim, (row * columns + column + 1) * headDim),
      ];
      if (qkNorm) {
        const scale = 1 / Math.sqrt(head.reduce((sum, v) => sum + v * v, 0) / headDim + 1e-5);
        head = head.map((v, i) => v * scale * norms[i + (column < heads ? 0 : headDim)]!);
      }
      return head.map((v, i) => {
        const a = angle(positions[row]!, i % half);
        return i < half
          ? v * Math.cos(a) - head[i + half]! * Math.sin(a)
          : v * Math.cos(a) + head[i - half]! * Math.sin(a);
      });
    };
    const expectedQ = positions.flatMap((_, row) =>
      Array.from({ length: heads }, (_, h) => turned(row, h).map((v) => v * 0.25)).flat(),
    );
    expect(maxError(new Float32Array(q!), expectedQ)).toBeLessThan(2e-6);

    const expected = new Float64Array(numBlocks * blockValues).fill(Number.NaN);
    positions.forEach((_, row) => {
      const [block, slot] = [Math.floor(slots[row]! / blockSize), slots[row]! % blockSize];
      for (const plane of [0, 1]) {
        for (let h = 0; h < kvHeads; h++) {
          const column = heads + plane * kvHeads + h;
          const from = (row * columns + column) * headDim;
          const values = plane === 0 ? turned(row, column) : qkv.subarray(from, from + headDim);
          expected.set(
            values,
            ((((block * layers + layer) * 2 + plane) * kvHeads + h) * blockSize + slot) * headDim,
          );
        }
      }
    });
    const got =
      dtype === 'f32' ? new Float32Array(cache!) : Float32Array.from(new Uint16Array(cache!), halfToFloat);
    const tolerance = dtype === 'f32' ? 2e-6 : 2e-3;
    const wrong = [...expected].filter((value, i) =>
      Number.isNaN(value) ? !Number.isNaN(got[i]!) : !(Math.abs(value - got[i]!) <= tolerance),
    );
    expect(wrong).toEqual([]);
  },
);

it.each([
  ['silu', 0],
  ['gelu', 1],
] as const)(
  'the gated %s matches float64 for a width that is not a multiple of 4',
  async (activation, GELU) => {
    const [rows, width] = [3, 10];
    const [width4, stride4] = [3, 5];
    const gateUp = randomValues(rows * 4 * stride4, 1).map((x) => 6 * x);
    // Extreme values, where an exponential of the argument overflows.
    gateUp.set([-40, 40, -12, 12]);
    const [out] = await runKernel(
      gpu,
      'swiglu',
      { WORKGROUP, GELU },
      [
        gateUp,
        new Float32Array(rows * 4 * width4).fill(Number.NaN),
        packUniform('swiglu', { width, width4, stride4 }),
        step(rows),
      ],
      [1, rows],
    );
    const expected = Array.from({ length: rows * 4 * width4 }, (_, at) => {
      const [row, i] = [Math.floor(at / (4 * width4)), at % (4 * width4)];
      if (i >= width) return 0;
      const gate = gateUp[row * 4 * stride4 + i]!;
      const slope = GELU ? Math.tanh(Math.sqrt(2 / Math.PI) * (gate + 0.044715 * gate ** 3)) : null;
      const activated = slope === null ? gate / (1 + Math.exp(-gate)) : 0.5 * gate * (1 + slope);
      return activated * gateUp[row * 4 * stride4 + width + i]!;
    });
    expect(maxError(new Float32Array(out!), expected), activation).toBeLessThan(1e-5);
  },
);
