/** Checks RoPE and the write of K and V to the paged cache against float64. */
import { packUniform } from '../../gpu/uniforms.ts';
import { ropeThreads } from '../../model/kernels/kernel-variants.ts';
import { rmsNorm, rotate } from '../../model/oracle/oracle-math.ts';
import { ropeFrequencies } from '../../model/pass/rope.ts';
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
import { LAYER, LAYERS, pagedStep, placedRows, SEQUENCES } from './paged-step.ts';

const BOUND = 2e-5;
/** An f16 has 11 significant bits; a device may round or truncate. */
export const HALF_BOUND = 1e-3;
/** [position][cos, sin][head_dim / 2]. */
export function turnsTable(architecture: Architecture): Float32Array {
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
  async measure(bench, shape, random) {
    const findings: Finding[] = [];
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
    WORKGROUP,
    HEAD_DIM: headDim,
    BLOCK_SIZE: blockSize,
    KV_F32: Number(kvDtype === 'f32'),
    QK_NORM: Number(qkNorm),
  });
  const { piece, cacheSize } = pagedStep(shape);
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
      piece.groups[0].tokens,
      new Float32Array(qSize),
      stored(untouched, kvDtype).data,
      packUniform('ropeKvWrite', {
        heads: numHeads,
        kv_heads: numKvHeads,
        layer: LAYER,
        layers: LAYERS,
        scale: 1 / Math.sqrt(headDim),
        eps: rmsNormEps,
      }),
      packUniform('step', { rows: rows.length, logit_rows: 0 }),
    ],
    [Math.ceil(ropeThreads(columns * headDim, headDim) / WORKGROUP), rows.length],
  );
  const expected = turnedRows(shape, Float64Array.from(qkv), qkNorm ? norms : null);
  return {
    q: largestError(new Float32Array(q!), expected.q),
    cache: largestError(loaded(cache!, kvDtype, cacheSize), expected.cache),
  };
}

/**
 * The expected result in float64 for q, k and v of the paged step's rows, [rows][columns]: q as attention expects it, and the
 * cache, with NaN where nothing is written. `norms`: applied first to each head of q and k, [q, k][head dim].
 */
export function turnedRows(
  shape: KernelShape,
  qkv: Float64Array,
  norms: Float32Array | null,
): { q: Float64Array; cache: Float64Array } {
  const { numHeads, numKvHeads, headDim, rmsNormEps } = shape.architecture;
  const { at, cacheSize } = pagedStep(shape);
  const columns = numHeads + 2 * numKvHeads;
  const frequencies = ropeFrequencies(shape.architecture);
  const rows = placedRows();
  const q = new Float64Array(rows.length * numHeads * headDim);
  const cache = new Float64Array(cacheSize).fill(Number.NaN);
  rows.forEach(({ sequence, position }, row) => {
    for (let column = 0; column < columns; column++) {
      const from = (row * columns + column) * headDim;
      let head: Float64Array = qkv.slice(from, from + headDim);
      const isValue = column >= numHeads + numKvHeads;
      if (!isValue) {
        const norm = norms?.subarray(column < numHeads ? 0 : headDim).subarray(0, headDim);
        if (norm) head = rmsNorm(head, norm, rmsNormEps);
        rotate(head, position, frequencies);
      }
      if (column < numHeads) {
        const scaled = head.map((value) => value / Math.sqrt(headDim));
        q.set(scaled, (row * numHeads + column) * headDim);
      } else {
        const kvHead = (column - numHeads) % numKvHeads;
        cache.set(head, at(sequence, isValue ? 1 : 0, kvHead, position));
      }
    }
  });
  return { q, cache };
}
