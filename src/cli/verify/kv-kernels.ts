/** RoPE with the write of K and V, and attention, against float64: kernels that work on the paged cache. */
import type { KernelName } from '../../gpu/kernels.ts';
import { packUniform } from '../../gpu/uniforms.ts';
import { type AdapterForm, attentionVariants } from '../../model/kernel-variants.ts';
import { attend, rmsNorm, rotate } from '../../model/oracle-math.ts';
import { ropeFrequencies } from '../../model/rope.ts';
import { attentionTiles, cutIntoPieces, type Piece } from '../../model/step-inputs.ts';
import type { Architecture, WeightDtype } from '../../model/types.ts';
import type { KernelBench } from './kernel-bench.ts';
import {
  DTYPES,
  type Finding,
  type KernelCheck,
  type KernelShape,
  largestError,
  loaded,
  type RandomNumbers,
  stored,
} from './kernel-cases.ts';

const BOUND = 2e-5;
/** A half keeps 11 bits; a device may round or cut. */
const HALF_BOUND = 1e-3;
/** A block has two layers; the second is used. */
const LAYERS = 2;
const LAYER = 1;
/** A chunk in the middle of a prompt, a decode, and a prompt's start, in one step. */
const SEQUENCES = [
  { start: 37, rows: 7 },
  { start: 63, rows: 1 },
  { start: 0, rows: 21 },
] as const;

interface PagedStep {
  piece: Piece;
  numBlocks: number;
  /** Index in the cache, in values, of a head's values at a position of a sequence. */
  at(sequence: number, plane: 0 | 1, head: number, position: number): number;
  /** Values of the whole cache. */
  cacheSize: number;
}

/** The sequences' rows as the runner lays them out, in blocks that are neither neighbours nor in order. */
function pagedStep({ architecture, blockSize }: KernelShape): PagedStep {
  const { numKvHeads, headDim } = architecture;
  const counts = SEQUENCES.map(({ start, rows }) => Math.ceil((start + rows) / blockSize));
  const numBlocks = 2 + 2 * counts.reduce((a, b) => a + b);
  let next = numBlocks + 1;
  const tables = counts.map((count) =>
    Array.from({ length: count }, () => {
      next -= 2;
      return next;
    }),
  );
  const requests = SEQUENCES.map(({ start, rows }, i) => ({
    requestId: `${i}`,
    tokenIds: new Array<number>(rows).fill(0),
    startPosition: start,
    blockIds: [tables[i]!],
    sample: null,
  }));
  const [piece] = cutIntoPieces(
    { step: 0, requests },
    { blockSize, numBlocks, vocabSize: 1, maxModelLen: 1024 },
    { rows: 1024, attendedKeys: Number.POSITIVE_INFINITY, logitRows: 1 },
  );
  const plane = numKvHeads * blockSize * headDim;
  return {
    piece: piece!,
    numBlocks,
    at(sequence, kv, head, position) {
      const block = tables[sequence]![Math.floor(position / blockSize)]!;
      const slot = (head * blockSize + (position % blockSize)) * headDim;
      return ((block * LAYERS + LAYER) * 2 + kv) * plane + slot;
    },
    cacheSize: numBlocks * LAYERS * 2 * plane,
  };
}

/** The rows of a step with their sequence and position. */
const placedRows = () =>
  SEQUENCES.flatMap(({ start, rows }, sequence) =>
    Array.from({ length: rows }, (_, i) => ({ sequence, position: start + i })),
  );

/** [position][cos, sin][head_dim / 2]. */
function turnsTable(architecture: Architecture): Float32Array {
  const frequencies = ropeFrequencies(architecture);
  const positions = Math.max(...SEQUENCES.map(({ start, rows }) => start + rows));
  return Float32Array.from(
    Array.from({ length: positions }, (_, position) => {
      const angles = [...frequencies].map((frequency) => position * frequency);
      return [...angles.map(Math.cos), ...angles.map(Math.sin)];
    }).flat(),
  );
}

export const rope: KernelCheck = {
  name: 'rope_kv_write',
  async measure(bench, shapes, random) {
    const findings: Finding[] = [];
    for (const shape of shapes) {
      for (const kvDtype of DTYPES) {
        const { q, cache } = await ropeErrors(bench, shape, kvDtype, random);
        const { name } = shape;
        findings.push({ what: `q, ${name}`, error: q, bound: BOUND });
        findings.push({
          what: `${kvDtype} K and V, ${name}`,
          error: cache,
          bound: kvDtype === 'f16' ? HALF_BOUND : BOUND,
        });
      }
    }
    return findings;
  },
};

async function ropeErrors(
  bench: KernelBench,
  shape: KernelShape,
  kvDtype: WeightDtype,
  random: RandomNumbers,
): Promise<{ q: number; cache: number }> {
  const { architecture, blockSize } = shape;
  const { numHeads, numKvHeads, headDim, qkNorm, rmsNormEps } = architecture;
  const columns = numHeads + 2 * numKvHeads;
  const WORKGROUP = bench.forms[0]!.workgroup;
  const kernel = await bench.library.get('ropeKvWrite', {
    ...{ WORKGROUP, HEAD_DIM: headDim, BLOCK_SIZE: blockSize },
    ...{ KV_F32: Number(kvDtype === 'f32'), QK_NORM: Number(qkNorm) },
  });
  const { piece, at, cacheSize } = pagedStep(shape);
  const rows = placedRows();
  const qkv = random.values(rows.length * columns * headDim);
  const norms = random.values(2 * headDim);
  const untouched = new Float32Array(cacheSize).fill(Number.NaN);
  const qSize = rows.length * numHeads * headDim;
  const [q, cache] = await bench.run(
    kernel,
    [
      qkv,
      norms,
      turnsTable(architecture),
      piece.tokens,
      new Float32Array(qSize),
      stored(untouched, kvDtype).data,
      packUniform('ropeKvWrite', {
        ...{ heads: numHeads, kv_heads: numKvHeads, layer: LAYER, layers: LAYERS },
        ...{ scale: 1 / Math.sqrt(headDim), eps: rmsNormEps },
      }),
      packUniform('step', { rows: rows.length, logit_rows: 0 }),
    ],
    [Math.ceil((columns * headDim) / 8 / WORKGROUP), rows.length],
  );
  const frequencies = ropeFrequencies(architecture);
  const expectedQ = new Float64Array(qSize);
  const expectedCache = Float64Array.from(untouched);
  rows.forEach(({ sequence, position }, row) => {
    for (let column = 0; column < columns; column++) {
      const from = (row * columns + column) * headDim;
      let head = Float64Array.from(qkv.subarray(from, from + headDim));
      const isValue = column >= numHeads + numKvHeads;
      if (!isValue) {
        const norm = column < numHeads ? norms.subarray(0, headDim) : norms.subarray(headDim);
        if (qkNorm) head = rmsNorm(head, norm, rmsNormEps) as Float64Array<ArrayBuffer>;
        rotate(head, position, frequencies);
      }
      if (column < numHeads) {
        const scaled = head.map((value) => value / Math.sqrt(headDim));
        expectedQ.set(scaled, (row * numHeads + column) * headDim);
      } else {
        const kvHead = (column - numHeads) % numKvHeads;
        expectedCache.set(head, at(sequence, isValue ? 1 : 0, kvHead, position));
      }
    }
  });
  return {
    q: largestError(new Float32Array(q!), expectedQ),
    cache: largestError(loaded(cache!, kvDtype, cacheSize), expectedCache),
  };
}

/** `form`: its kernels of this name, for steps of few and of many rows. */
export const attention = (name: string, kernelName: KernelName, form: AdapterForm): KernelCheck => ({
  name,
  async measure(bench, shapes, random) {
    const findings: Finding[] = [];
    for (const shape of shapes) {
      const { headDim, numHeads, numKvHeads } = shape.architecture;
      for (const kvDtype of DTYPES) {
        const { few, many } = await attentionVariants(bench.library, form, {
          ...{ headDim, blockSize: shape.blockSize, group: numHeads / numKvHeads },
          kvF32: kvDtype === 'f32',
        });
        const variants = few.kernel === many.kernel ? [many] : [few, many];
        for (const { kernel, tileRows } of variants) {
          if (kernel.name !== kernelName) continue;
          const error = await attentionError(bench, { kernel, tileRows, form }, shape, kvDtype, random);
          findings.push({
            what: `${kvDtype} KV, ${tileRows} rows a tile, ${shape.name}`,
            error,
            bound: BOUND,
          });
        }
      }
    }
    return findings;
  },
});

async function attentionError(
  bench: KernelBench,
  {
    kernel,
    tileRows,
    form,
  }: { kernel: Parameters<KernelBench['run']>[0]; tileRows: number; form: AdapterForm },
  shape: KernelShape,
  kvDtype: WeightDtype,
  random: RandomNumbers,
): Promise<number> {
  const { numHeads, numKvHeads, headDim } = shape.architecture;
  const group = numHeads / numKvHeads;
  const { piece, at, cacheSize } = pagedStep(shape);
  const rows = placedRows();
  const size = rows.length * numHeads * headDim;
  const q = random.values(size);
  const unscaled = Float64Array.from(q, (value) => value * Math.sqrt(headDim));
  // What no sequence has written is NaN: reading it shows.
  const content = new Float32Array(cacheSize).fill(Number.NaN);
  const heads = SEQUENCES.map(({ start, rows }, sequence) =>
    ([0, 1] as const).map((plane) =>
      Array.from({ length: numKvHeads }, (_, head) => {
        const { values } = stored(random.values((start + rows) * headDim), kvDtype);
        for (let position = 0; position < start + rows; position++) {
          const one = values.subarray(position * headDim, (position + 1) * headDim);
          content.set(one, at(sequence, plane, head, position));
        }
        return Float64Array.from(values);
      }),
    ),
  );
  const tiles = attentionTiles(piece, group, tileRows);
  const [out] = await bench.run(
    kernel,
    [
      q,
      stored(content, kvDtype).data,
      piece.tokens,
      tiles,
      piece.tables,
      new Float32Array(size),
      packUniform('attention', {
        ...{ layer: LAYER, layers: LAYERS, kv_heads: numKvHeads, group },
        ...{ dims4: headDim / 4, lanes: form.subgroup ?? 1 },
      }),
    ],
    [tiles.length / 4, numKvHeads],
  );
  const expected = new Float64Array(size);
  rows.forEach(({ sequence, position }, row) => {
    for (let head = 0; head < numHeads; head++) {
      const from = (row * numHeads + head) * headDim;
      const [keys, values] = heads[sequence]!.map((plane) => plane[Math.floor(head / group)]!);
      const result = expected.subarray(from, from + headDim);
      attend(unscaled.subarray(from, from + headDim), keys!, values!, position + 1, result);
    }
  });
  return largestError(new Float32Array(out!, 0, size), expected);
}
