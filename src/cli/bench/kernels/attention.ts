/** Paged attention: a prompt's rows, and one row at the end of a long context. */
import { packUniform } from '../../../gpu/uniforms.ts';
import { EVERY_KEY } from '../../../model/architecture/layer-attention.ts';
import { attentionParts, attentionVariants } from '../../../model/kernels/attention-variants.ts';
import type { AdapterForm } from '../../../model/kernels/kernel-variants.ts';
import { attend } from '../../../model/oracle/oracle-math.ts';
import { attentionTiles } from '../../../model/pass/step-inputs.ts';
import { floatToHalf, halfToFloat } from '../../../model/weights/half.ts';
import { numbers, probes, time, type Workbench } from './workbench.ts';

export interface AttentionShape {
  /** Rows computed, at the end of a context of `context` tokens. */
  rows: number;
  context: number;
  headDim: number;
  heads: number;
  kvHeads: number;
  /** Number of keys that a row sees; absent: all. */
  window?: number;
}

export interface AttentionFigure extends AttentionShape {
  kernel: string;
  ms: number[];
  /** Counts only causal multiply-adds, each as two operations. */
  gflops: number;
  /** 10^9 bytes per second of KV that any row sees, each byte counted once. */
  kvGbps: number;
  error: number;
}

const BLOCK_SIZE = 16;

export const attentionShapes: readonly AttentionShape[] = [
  ...[32, 64, 128].map((headDim) => ({ rows: 1024, context: 1024, headDim, heads: 4, kvHeads: 2 })),
  { rows: 256, context: 1024, headDim: 64, heads: 4, kvHeads: 2 },
  ...[512, 4096].map((context) => ({ rows: 1, context, headDim: 64, heads: 4, kvHeads: 2 })),
];

/** In the shapes of tiny-hybrid and Gemma 3: a window at the end of a long context, and a context of the window's length. */
export const windowPairs: readonly { windowed: AttentionShape; full: AttentionShape }[] = [
  { headDim: 64, heads: 4, kvHeads: 2 },
  { headDim: 256, heads: 4, kvHeads: 1 },
].flatMap((shape) =>
  [1, 64].map((rows) => ({
    windowed: { ...shape, rows, context: 4096, window: 512 },
    full: { ...shape, rows, context: 512 },
  })),
);

export async function measureAttention(
  bench: Workbench,
  form: AdapterForm,
  shape: AttentionShape,
): Promise<AttentionFigure> {
  const { rows, context, headDim, heads, kvHeads, window = EVERY_KEY } = shape;
  const group = heads / kvHeads;
  const variants = attentionVariants(bench.library, form, {
    headDim,
    blockSize: BLOCK_SIZE,
    kvHeads,
    group,
    kvF32: false,
    maxModelLen: context,
  });
  const few = variants.few;
  const workgroups = Math.ceil(group / few.tileRows) * kvHeads;
  const parts =
    rows === 1 ? attentionParts({ rows, longestContext: context, workgroups, window }, heads, form) : 1;
  const split = parts > 1 ? variants.split : null;
  const { kernel, tileRows } = split ?? (rows === 1 ? few : variants.many);
  await Promise.all([kernel, ...(split ? [split.combine] : [])].map((each) => bench.library.make(each)));
  const blocks = Math.ceil(context / BLOCK_SIZE);
  const plane = kvHeads * BLOCK_SIZE * headDim;
  const cache = Uint16Array.from(numbers((blocks + 1) * 2 * plane, 3), floatToHalf);
  // Scattered, like a pool's blocks after some use.
  const tables = Uint32Array.from({ length: blocks }, (_, i) => 1 + ((i * stride(blocks)) % blocks));
  const tokens = new Uint32Array(4 * rows);
  for (let row = 0; row < rows; row++) tokens[4 * row + 1] = context - rows + row;
  const q = numbers(rows * heads * headDim, 4).map((value) => value / Math.sqrt(headDim));
  const piece = { spans: [{ table: 0, firstRow: 0, rows }] };
  const tiles = attentionTiles(piece, group, tileRows);
  const job = {
    kernel,
    inputs: [
      q,
      cache,
      tokens,
      tiles,
      tables,
      new Float32Array(split ? heads * parts * (headDim + 4) : q.length),
      packUniform('attention', {
        layer: 0,
        layers: 1,
        kv_heads: kvHeads,
        group,
        dims4: headDim / 4,
        lanes: form.subgroup ?? 1,
        window,
      }),
    ],
    output: 5,
    workgroups: [tiles.length / 4, kvHeads, parts] as const,
  };
  const second = split && {
    kernel: split.combine,
    inputs: [
      'first' as const,
      tokens,
      new Float32Array(q.length),
      packUniform('attentionCombine', { heads, dims4: headDim / 4, window }),
      packUniform('step', { rows, logit_rows: 0 }),
    ],
    output: 2,
    workgroups: [Math.ceil((heads * headDim) / 4 / form.workgroup), rows] as const,
  };
  const { ms, output } = await time(bench, job, second);
  let error = 0;
  for (const at of probes(rows * heads, 8)) {
    const [row, head] = [Math.floor(at / heads), at % heads];
    const length = context - rows + row + 1;
    const part = (which: 0 | 1) => {
      const values = new Float64Array(length * headDim);
      for (let i = 0; i < values.length; i++) {
        const [position, d] = [Math.floor(i / headDim), i % headDim];
        const block = tables[Math.floor(position / BLOCK_SIZE)]! * 2 + which;
        const slot = Math.floor(head / group) * BLOCK_SIZE + (position % BLOCK_SIZE);
        values[i] = halfToFloat(cache[block * plane + slot * headDim + d]!);
      }
      return values;
    };
    const from = at * headDim;
    const expected = new Float64Array(headDim);
    const unscaled = Float64Array.from(q.subarray(from, from + headDim), (x) => x * Math.sqrt(headDim));
    attend(unscaled, part(0), part(1), length, expected, { window });
    for (let d = 0; d < headDim; d++) {
      const difference = Math.abs(output[from + d]! - expected[d]!);
      error = Math.max(error, Number.isNaN(difference) ? Infinity : difference);
    }
  }
  let pairs = 0;
  for (let row = 0; row < rows; row++) pairs += Math.min(context - rows + row + 1, window);
  const best = Math.min(...ms);
  return {
    ...shape,
    kernel: `${kernel.name} ${tileRows}${split ? `, ${parts} parts` : ''}`,
    ms,
    gflops: (4 * pairs * heads * headDim) / best / 1e6,
    kvGbps: (Math.min(context, window + rows - 1) * kvHeads * headDim * 4) / best / 1e6,
    error,
  };
}

/** A stride through the blocks that reaches each once. */
function stride(blocks: number): number {
  const common = (a: number, b: number): number => (b === 0 ? a : common(b, a % b));
  let step = Math.floor(blocks * 0.6) || 1;
  while (common(blocks, step) !== 1) step++;
  return step;
}
