/**
 * The attention dispatches of a layer: which kernel form serves a piece, and whether contexts are split into parts that
 * a second kernel combines.
 */
import { isCompiled, type Kernel, type KernelLibrary } from '../../gpu/kernels.ts';
import type { GpuKvMemory } from '../../gpu/kv-memory.ts';
import type { UniformName, UniformValues } from '../../gpu/uniforms.ts';
import { type KvGroups, placeOf } from '../architecture/kv-groups.ts';
import { windowOf } from '../architecture/layer-attention.ts';
import {
  type AttentionVariant,
  type AttentionVariants,
  attentionParts,
} from '../kernels/attention-variants.ts';
import type { AdapterForm, Want } from '../kernels/kernel-variants.ts';
import type { Architecture } from '../types.ts';
import type { Activations } from './activations.ts';
import type { Stage } from './stage.ts';
import { attendedKeys, type Piece } from './step-inputs.ts';

export interface AttentionStages {
  layerStages(layer: number): Stage[];
  /** The form that serves the piece if it is not split. A split piece has the tile rows of `few`. */
  variantFor(piece: Piece): AttentionVariant;
  /** Multiply-adds for one (row, key) pair. */
  pairWork: number;
  /** The kernel for pieces of many rows; requests no compilation. */
  manyKernel(): Kernel;
}

export function createAttention(parts: {
  library: KernelLibrary;
  form: AdapterForm;
  architecture: Architecture;
  activations: Activations;
  kv: GpuKvMemory;
  groups: KvGroups;
  variants: AttentionVariants;
  uniform: <N extends UniformName>(name: N, values: UniformValues<N>) => GPUBuffer;
  stepUniform: GPUBuffer;
  want: Want;
}): AttentionStages {
  const { library, form, architecture, activations: act, kv, uniform, want } = parts;
  const { numHeads, numKvHeads, headDim } = architecture;
  const group = numHeads / numKvHeads;
  const pairWork = 2 * numHeads * headDim;
  const width = (numHeads * headDim) / 4;
  const { few, many, split } = parts.variants;

  const tilesOf = (piece: Piece, { tileRows }: AttentionVariant): number =>
    piece.spans.reduce((sum, { rows }) => sum + Math.ceil((rows * group) / tileRows), 0);
  const isFew = (piece: Piece) => piece.spans.every(({ rows }) => rows === 1);
  /** Returns the preferred form, or the other while the preferred one has no pipeline: either serves any piece. */
  const made = (meant: AttentionVariant, other: AttentionVariant): AttentionVariant => {
    if (isCompiled(meant.kernel)) return meant;
    want(meant.kernel);
    return other;
  };
  const variantFor = (piece: Piece) => (isFew(piece) ? made(few, many) : made(many, few));
  const splitKernels = split ? [split.kernel, split.combine] : [];
  const splitCompiled = (): boolean => {
    if (splitKernels.every(isCompiled)) return true;
    for (const kernel of splitKernels) if (!isCompiled(kernel)) want(kernel);
    return false;
  };
  /** Parts to split the piece's contexts into, for layers with this window; 1: not split. */
  const partsOf = (piece: Piece, window: number): number => {
    if (!split || !isFew(piece)) return 1;
    const { numRows: rows, longestContext } = piece;
    const workgroups = tilesOf(piece, split) * numKvHeads;
    const wanted = attentionParts({ rows, longestContext, workgroups, window }, numHeads, form);
    return wanted > 1 && splitCompiled() ? wanted : 1;
  };

  const attend = (layer: number): Stage => {
    const label = `layer ${layer} attention`;
    const window = windowOf(architecture, layer);
    const { group: kvGroup, index } = placeOf(parts.groups, layer);
    const params = uniform('attention', {
      ...kv.placeOfLayer(index, parts.groups.layersPerBlock),
      kv_heads: numKvHeads,
      group,
      dims4: headDim / 4,
      lanes: form.subgroup ?? 1,
      window,
    });
    const inputs = [act.q, kv.buffer, act.tokens[kvGroup]!, act.tiles, act.tables[kvGroup]!];
    // All forms share a bind group for each output, since their layouts are equal.
    const toRows = library.bind(many.kernel, label, [...inputs, act.attended, params]);
    const toParts = library.bind(many.kernel, label, [...inputs, act.parts, params]);
    return (piece) => {
      const z = partsOf(piece, window);
      const variant = z > 1 ? split! : variantFor(piece);
      return {
        kernel: variant.kernel,
        bindGroup: z > 1 ? toParts : toRows,
        label,
        x: tilesOf(piece, variant),
        y: numKvHeads,
        z,
        work: attendedKeys(piece, window) * pairWork,
      };
    };
  };

  const combine = (layer: number, { combine: kernel }: NonNullable<typeof split>): Stage => {
    const label = `layer ${layer} attention combine`;
    const window = windowOf(architecture, layer);
    const params = uniform('attentionCombine', { heads: numHeads, dims4: headDim / 4, window });
    const buffers = [act.parts, act.tokens[0]!, act.attended, params, parts.stepUniform];
    const bindGroup = library.bind(kernel, label, buffers);
    const x = Math.ceil(width / form.workgroup);
    return (piece) => {
      const z = partsOf(piece, window);
      if (z === 1) return null;
      const y = piece.numRows;
      return { kernel, bindGroup, label, x, y, work: y * width * z };
    };
  };

  return {
    layerStages: (layer) => [attend(layer), ...(split ? [combine(layer, split)] : [])],
    variantFor,
    pairWork,
    manyKernel: () => (isCompiled(many.kernel) ? many : few).kernel,
  };
}
