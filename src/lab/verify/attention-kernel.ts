/** Checks attention over a paged cache, whole and split into parts, against float64. */
import type { KernelName } from '../../gpu/kernels.ts';
import { packUniform } from '../../gpu/uniforms.ts';
import { EVERY_KEY } from '../../model/architecture/layer-attention.ts';
import {
  ATTENTION_PART,
  type AttentionVariant,
  attentionVariants,
  contextParts,
  type SplitAttention,
} from '../../model/kernels/attention-variants.ts';
import type { AdapterForm } from '../../model/kernels/kernel-variants.ts';
import { attend } from '../../model/oracle/oracle-math.ts';
import { attentionTiles, type Piece } from '../../model/pass/step-inputs.ts';
import type { WeightDtype } from '../../model/types.ts';
import type { KernelBench } from './kernel-bench.ts';
import {
  DTYPES,
  type Finding,
  type KernelCheck,
  type KernelShape,
  largestError,
  type RandomNumbers,
  stored,
} from './kernel-cases.ts';
import { LAYER, LAYERS, pagedStep, placedRows, SEQUENCES } from './paged-step.ts';

const BOUND = 2e-5;
/** Tokens: shorter than a chunk of the step, and not a multiple of a block or a tile. */
const WINDOW = 13;

/** Checks the form's kernels of this name, for steps of few and of many rows. */
export const attention = (name: string, kernelName: KernelName, form: AdapterForm): KernelCheck => ({
  name,
  async measure(bench, shape, random) {
    const findings: Finding[] = [];
    const { headDim, numHeads, numKvHeads } = shape.architecture;
    for (const kvDtype of DTYPES) {
      // Always includes the split variant, even if this adapter would not use it.
      const splitting = { ...form, enoughWorkgroups: Number.POSITIVE_INFINITY };
      const { few, many, split } = attentionVariants(bench.library, splitting, {
        headDim,
        blockSize: shape.blockSize,
        kvHeads: numKvHeads,
        group: numHeads / numKvHeads,
        maxModelLen: 2 * ATTENTION_PART,
        kvF32: kvDtype === 'f32',
      });
      const variants = [few, many, split!].filter(
        ({ kernel }, i, all) => all.findIndex((other) => other.kernel === kernel) === i,
      );
      for (const variant of variants) {
        if (variant.kernel.name !== kernelName) continue;
        await Promise.all([variant.kernel, split!.combine].map((kernel) => bench.library.make(kernel)));
        for (const window of [EVERY_KEY, WINDOW]) {
          const error = await attentionError(bench, { ...variant, form }, shape, { kvDtype, window }, random);
          const how = `${variant === split ? ', in parts' : ''}${window === WINDOW ? `, window ${WINDOW}` : ''}`;
          const what = `${kvDtype} KV, ${variant.tileRows} rows a tile${how}, ${shape.name}`;
          findings.push({ what, error, bound: BOUND });
        }
      }
    }
    return findings;
  },
});

async function attentionError(
  bench: KernelBench,
  variant: (AttentionVariant | SplitAttention) & { form: AdapterForm },
  shape: KernelShape,
  { kvDtype, window }: { kvDtype: WeightDtype; window: number },
  random: RandomNumbers,
): Promise<number> {
  const { numHeads, numKvHeads, headDim } = shape.architecture;
  const group = numHeads / numKvHeads;
  const { kernel, tileRows, form } = variant;
  const { piece, at, cacheSize } = pagedStep(shape);
  const rows = placedRows();
  const size = rows.length * numHeads * headDim;
  const parts = 'combine' in variant ? contextParts(piece.longestContext, window) : 1;
  const q = random.values(size);
  const unscaled = Float64Array.from(q, (value) => value * Math.sqrt(headDim));
  // Slots that no sequence has written, or that no row attends to, are NaN, so that reading them is detected.
  const content = new Float32Array(cacheSize).fill(Number.NaN);
  const heads = SEQUENCES.map(({ start, rows }, sequence) =>
    ([0, 1] as const).map((plane) =>
      Array.from({ length: numKvHeads }, (_, head) => {
        const { values } = stored(random.values((start + rows) * headDim), kvDtype);
        for (let position = Math.max(0, start + 1 - window); position < start + rows; position++) {
          const one = values.subarray(position * headDim, (position + 1) * headDim);
          content.set(one, at(sequence, plane, head, position));
        }
        return Float64Array.from(values);
      }),
    ),
  );
  const tiles = attentionTiles(piece, group, tileRows);
  const [written] = await bench.run(
    kernel,
    [
      q,
      stored(content, kvDtype).data,
      piece.groups[0].tokens,
      tiles,
      piece.groups[0].tables,
      new Float32Array(parts > 1 ? rows.length * numHeads * parts * (headDim + 4) : size),
      packUniform('attention', {
        layer: LAYER,
        layers: LAYERS,
        kv_heads: numKvHeads,
        group,
        dims4: headDim / 4,
        lanes: form.subgroup ?? 1,
        window,
      }),
    ],
    [tiles.length / 4, numKvHeads, parts],
  );
  const out =
    'combine' in variant
      ? await combined(bench, variant, { written: written!, piece, heads: numHeads, headDim, window })
      : written!;
  const expected = new Float64Array(size);
  rows.forEach(({ sequence, position }, row) => {
    for (let head = 0; head < numHeads; head++) {
      const from = (row * numHeads + head) * headDim;
      const [keys, values] = heads[sequence]!.map((plane) => plane[Math.floor(head / group)]!);
      const result = expected.subarray(from, from + headDim);
      attend(unscaled.subarray(from, from + headDim), keys!, values!, position + 1, result, { window });
    }
  });
  return largestError(new Float32Array(out, 0, size), expected);
}

async function combined(
  bench: KernelBench,
  { combine, form }: SplitAttention & { form: AdapterForm },
  from: { written: ArrayBuffer; piece: Piece; heads: number; headDim: number; window: number },
): Promise<ArrayBuffer> {
  const { written, piece, heads, headDim, window } = from;
  const width = (heads * headDim) / 4;
  const [out] = await bench.run(
    combine,
    [
      new Float32Array(written),
      piece.groups[0].tokens,
      new Float32Array(4 * piece.numRows * width),
      packUniform('attentionCombine', { heads, dims4: headDim / 4, window }),
      packUniform('step', { rows: piece.numRows, logit_rows: 0 }),
    ],
    [Math.ceil(width / form.workgroup), piece.numRows],
  );
  return out!;
}
