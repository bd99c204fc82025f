import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { GpuDevice } from '../../src/gpu/device.ts';
import type { KernelName, Overrides } from '../../src/gpu/kernels.ts';
import { packUniform } from '../../src/gpu/uniforms.ts';
import { EVERY_KEY } from '../../src/model/architecture/layer-attention.ts';
import { blockedTileOf, tileRowsOf } from '../../src/model/kernels/attention-variants.ts';
import { openTestDevice, triesGpuKernels } from './adapter.ts';
import { attention, maxError, randomValues, store } from './reference.ts';
import { runKernel } from './run-kernel.ts';

let gpu: GpuDevice;
beforeAll(async () => {
  gpu = await openTestDevice();
});
afterAll(() => gpu.destroy());

interface Case {
  headDim: number;
  group: number;
  kvHeads: number;
  /** Positions [start, start + rows) of one sequence. */
  start: number;
  rows: number;
  kvDtype: 'f16' | 'f32';
  blockSize: number;
  /** Keys that a row sees. Default: all. */
  window?: number;
  /** What the table has for blocks that no row sees: their former ids (default), or the null block. */
  before?: 'freed' | 'null';
}

/** On a busy machine the widest heads take minutes to compile for the first time. */
const COMPILING_MS = 600_000;
/** Sequence length with more parts than any row sees, so that whole parts lie before the window. */
const longest = 200;

interface Form {
  kernel: KernelName;
  overrides: Overrides;
  tileRows: number;
  /** Computed in parts, which another kernel adds up. */
  split: boolean;
}

/** Keys per part: sequences here have several parts. */
const PART = 32;

/** The forms in which an engine may compute such heads. */
function forms({ headDim, group }: Pick<Case, 'headDim' | 'group'>): Form[] {
  const lanes = gpu.report.subgroupSize;
  const portable = { kernel: 'attentionPortable', overrides: {}, tileRows: 4 } as const;
  // A software adapter never uses it for narrow heads, and would take 15 s to compile it.
  const tried = triesGpuKernels(gpu) && !(gpu.report.software && headDim <= 64);
  const blocked = tried ? blockedTileOf(headDim, group) : null;
  const ofBlocked = ({ many, few, keys: KEYS }: ReturnType<typeof blockedTileOf>): Form[] =>
    [
      { tileRows: many, split: false },
      { tileRows: few, split: false },
      { tileRows: few, split: true },
    ].map((form) => ({ kernel: 'attentionBlocked', overrides: { ROWS: form.tileRows, KEYS }, ...form }));
  // The other software adapter uses it, and compiles it in a fifth of the time.
  const ofPortable = !(gpu.report.software && lanes !== null && headDim > 64);
  const list: Form[] = [
    ...(ofPortable ? [false, true].map((split) => ({ ...portable, split })) : []),
    ...(blocked ? ofBlocked(blocked) : []),
  ];
  if (lanes === null) return list;
  const { many, few } = tileRowsOf(headDim, group);
  const ofRows = (rows: number, split: boolean): Form[] =>
    rows > lanes
      ? []
      : [{ kernel: 'attention', overrides: { SUBGROUP: lanes, ROWS: rows }, tileRows: rows, split }];
  return [...list, ...ofRows(many, false), ...(few === many ? [] : ofRows(few, false)), ...ofRows(few, true)];
}

/** Parts are counted from the first one that a row sees, so with a window only single rows can be split. */
const serves = (form: Form, c: Case): boolean => !form.split || c.window === undefined || c.rows === 1;

const layers = 2;
const layer = 1;

/** K and V of `length` positions per head, in shuffled blocks of a cache whose other slots are NaN. */
function cacheOf(c: Case, length: number, firstSeen: number) {
  const { blockSize, kvHeads, headDim } = c;
  const blocks = Math.ceil(length / blockSize);
  const table = Uint32Array.from(
    { length: blocks },
    (_, i) => 1 + ((i * 5 + 3) % (blocks + (blocks % 5 === 0 ? 1 : 0))),
  );
  const gone = Math.floor(firstSeen / blockSize);
  const plane = kvHeads * blockSize * headDim;
  const filled = new Float32Array((blocks + 3) * layers * 2 * plane).fill(Number.NaN);
  const perHead = (seed: number) =>
    Array.from({ length: kvHeads }, (_, h) =>
      store(randomValues(longest * headDim, seed + h), c.kvDtype).values.subarray(0, length * headDim),
    );
  const k = perHead(50);
  const v = perHead(60);
  for (let h = 0; h < kvHeads; h++) {
    for (let t = 0; t < length; t++) {
      // These blocks were freed; another sequence wrote NaN there.
      if (Math.floor(t / blockSize) < gone) continue;
      const block = table[Math.floor(t / blockSize)]!;
      const slot = (h * blockSize + (t % blockSize)) * headDim;
      const from = t * headDim;
      const base = (block * layers + layer) * 2 * plane;
      filled.set(k[h]!.subarray(from, from + headDim), base + slot);
      filled.set(v[h]!.subarray(from, from + headDim), base + plane + slot);
    }
  }
  if (c.before === 'null') table.fill(0, 0, gone);
  return { table, cache: store(filled, c.kvDtype).data, k, v };
}

async function attend(form: Form, c: Case) {
  const { headDim, group, kvHeads, start, rows, window = EVERY_KEY } = c;
  const length = start + rows;
  const heads = kvHeads * group;
  const { table, cache, k, v } = cacheOf(c, length, Math.max(0, start + 1 - window));
  const width = heads * headDim;
  const q = randomValues(longest * width, 4)
    .map((x) => x * 0.7)
    .subarray(start * width, length * width);
  const tokens = Uint32Array.from({ length: 4 * rows }, (_, i) => (i % 4 === 1 ? start + (i >> 2) : 0));
  const tiles: number[] = [];
  for (let flat = 0; flat < rows * group; flat += form.tileRows) {
    tiles.push(0, 0, flat, Math.min(form.tileRows, rows * group - flat));
  }
  const seen = Math.ceil((window - 1) / PART) + 1;
  const parts = form.split ? Math.min(Math.ceil(length / PART), seen) : 1;
  const shape = { HEAD_DIM: headDim, BLOCK_SIZE: c.blockSize, KV_F32: Number(c.kvDtype === 'f32') };
  const [written] = await runKernel(
    gpu,
    form.kernel,
    { ...form.overrides, ...shape, PART, SPLIT: Number(form.split) },
    [
      q,
      cache,
      tokens,
      Uint32Array.from(tiles),
      table,
      new Float32Array(form.split ? rows * heads * parts * (headDim + 4) : q.length).fill(Number.NaN),
      packUniform('attention', {
        layer,
        layers,
        kv_heads: kvHeads,
        group,
        dims4: headDim / 4,
        lanes: gpu.report.subgroupSize ?? 1,
        window,
      }),
    ],
    [tiles.length / 4, kvHeads, parts],
  );
  const out = form.split ? await combine(written!, tokens, heads, headDim, window) : written;
  const expected = new Float64Array(q.length);
  for (let row = 0; row < rows; row++) {
    for (let h = 0; h < heads; h++) {
      const from = (row * heads + h) * headDim;
      const kv = Math.floor(h / group);
      expected.set(
        attention(q.subarray(from, from + headDim), k[kv]!, v[kv]!, start + row + 1, headDim, window),
        from,
      );
    }
  }
  return { out: new Float32Array(out!, 0, q.length), expected };
}

async function combine(
  parts: ArrayBuffer,
  tokens: Uint32Array,
  heads: number,
  headDim: number,
  window: number,
) {
  const rows = tokens.length / 4;
  const [out] = await runKernel(
    gpu,
    'attentionCombine',
    { WORKGROUP: 64, PART },
    [
      new Float32Array(parts),
      tokens,
      new Float32Array(rows * heads * headDim),
      packUniform('attentionCombine', { heads, dims4: headDim / 4, window }),
      packUniform('step', { rows, logit_rows: 0 }),
    ],
    [Math.ceil((heads * headDim) / 4 / 64), rows],
  );
  return out;
}

describe('paged attention', () => {
  it.each([
    { headDim: 32, group: 2, kvHeads: 1, start: 0, rows: 21, kvDtype: 'f16', blockSize: 16 },
    { headDim: 64, group: 3, kvHeads: 2, start: 37, rows: 7, kvDtype: 'f16', blockSize: 8 },
    { headDim: 16, group: 1, kvHeads: 2, start: 5, rows: 9, kvDtype: 'f32', blockSize: 4 },
    { headDim: 128, group: 8, kvHeads: 1, start: 30, rows: 2, kvDtype: 'f16', blockSize: 16 },
    { headDim: 24, group: 4, kvHeads: 1, start: 63, rows: 1, kvDtype: 'f32', blockSize: 16 },
    { headDim: 40, group: 2, kvHeads: 1, start: 64, rows: 1, kvDtype: 'f16', blockSize: 16 },
    { headDim: 4, group: 2, kvHeads: 1, start: 20, rows: 3, kvDtype: 'f16', blockSize: 16 },
    { headDim: 20, group: 2, kvHeads: 2, start: 50, rows: 4, kvDtype: 'f32', blockSize: 16 },
    { headDim: 256, group: 4, kvHeads: 1, start: 60, rows: 5, kvDtype: 'f16', blockSize: 16 },
    { headDim: 256, group: 4, kvHeads: 1, start: 180, rows: 3, kvDtype: 'f16', blockSize: 16, window: 45 },
    { headDim: 64, group: 4, kvHeads: 2, start: 190, rows: 9, kvDtype: 'f16', blockSize: 8, window: 1 },
    { headDim: 32, group: 2, kvHeads: 1, start: 0, rows: 200, kvDtype: 'f16', blockSize: 16, window: 33 },
    { headDim: 16, group: 1, kvHeads: 2, start: 199, rows: 1, kvDtype: 'f32', blockSize: 4, window: 64 },
    { headDim: 64, group: 3, kvHeads: 1, start: 127, rows: 1, kvDtype: 'f16', blockSize: 16, window: 500 },
  ] as Case[])('matches float64 in every form: %o', { timeout: COMPILING_MS }, async (c) => {
    for (const form of forms(c).filter((f) => serves(f, c))) {
      const { out, expected } = await attend(form, c);
      expect(maxError(out, expected), JSON.stringify(form)).toBeLessThan(2e-5);
    }
  });

  it.each([1, 7, 32, 45, 100])(
    'with a window of %i gives a row the same bits in every form and chunk, whatever is before the window',
    async (window) => {
      const whole: Case = {
        ...{
          headDim: 64,
          group: 2,
          kvHeads: 1,
          start: 0,
          rows: longest,
          kvDtype: 'f16',
          blockSize: 4, // less than a tile of keys
          window,
        },
      };
      const width = whole.headDim * whole.group;
      for (const kernel of new Set(forms(whole).map((form) => form.kernel))) {
        const [first, ...others] = forms(whole).filter((form) => form.kernel === kernel);
        const { out, expected } = await attend(first!, whole);
        expect(maxError(out, expected), kernel).toBeLessThan(2e-5);
        for (const form of [first!, ...others]) {
          for (const [start, rows] of [
            [40, 5],
            [63, 70],
            [131, 1],
            [199, 1],
          ] as const) {
            for (const before of ['freed', 'null'] as const) {
              const chunk = { ...whole, start, rows, before };
              if (!serves(form, chunk)) continue;
              const part = await attend(form, chunk);
              const same = out.slice(start * width, (start + rows) * width);
              expect(part.out, JSON.stringify([form, chunk])).toEqual(same);
            }
          }
        }
      }
    },
  );

  it.each([64, 128])(
    'with %i dimensions gives a row the same bits in every form and chunk',
    async (headDim) => {
      const whole: Case = {
        headDim,
        group: 2,
        kvHeads: 1,
        start: 0,
        rows: 70,
        kvDtype: 'f16',
        blockSize: 16,
      };
      const width = whole.headDim * whole.group;
      for (const form of forms(whole)) {
        const { out } = await attend(form, whole);
        const other = forms(whole).find((f) => f.kernel === form.kernel)!;
        expect(out, JSON.stringify(form)).toEqual((await attend(other, whole)).out);
        for (const [start, rows] of [
          [0, 8],
          [8, 5],
          [13, 16],
          [28, 1],
          [31, 3],
          [60, 10],
        ] as const) {
          const part = await attend(form, { ...whole, start, rows });
          expect(part.out).toEqual(out.slice(start * width, (start + rows) * width));
        }
      }
    },
  );
});
