/**
 * A layer's matrices as stages of the pass, with the norms before them and what follows them: in one dispatch for few rows
 * (fused-kernels.ts), each by itself for more.
 */
import { isMade, type KernelLibrary } from '../gpu/kernels.ts';
import type { UniformName, UniformValues } from '../gpu/uniforms.ts';
import type { Activations } from './activations.ts';
import type { DeviceMatrix } from './device-weights.ts';
import { type FusedMatrix, MOST_FUSED_ROWS } from './fused-kernels.ts';
import { type GemmVariant, gemmFor, madeGemmFor, type Want } from './kernel-variants.ts';
import { plainProduct } from './matrices.ts';
import type { PassKernels } from './pass-kernels.ts';
import type { Stage } from './stage.ts';
import type { Piece } from './step-inputs.ts';
import { type Architecture, pad4 } from './types.ts';

/** What becomes of a matrix's product. */
interface ProductEnd {
  /** Of the kernel's end. */
  to: readonly GPUBuffer[];
  /** Add it to what is there. */
  add?: boolean;
  /** It is of the logits. */
  piece?: { first: number } | null;
  /** Weights of the RMSNorm that a's rows get first; the variants must do that. */
  norm?: GPUBuffer | null;
  variants?: readonly GemmVariant[];
}

/** Columns of a matrix that any form serves, in vec4. */
const EVEN = 2;

/** Asked of every stage of every step: what was made once stays. */
function fromThenOn(holds: () => boolean): () => boolean {
  let held = false;
  return () => {
    held ||= holds();
    return held;
  };
}

const where =
  (wanted: (piece: Piece) => boolean, of: Stage): Stage =>
  (piece) =>
    wanted(piece) ? of(piece) : null;

export interface NormedProduct {
  names: { norm: string; product: string };
  /** Of the norm. */
  weight: GPUBuffer;
  matrix: DeviceMatrix;
  out: GPUBuffer;
  /** null: never. */
  fused: FusedMatrix | null;
  /** What a kernel is bound to that does all of it. */
  whole: readonly GPUBuffer[];
  /** What follows the product where that stands alone. */
  after: Stage;
}

export function createProducts(parts: {
  library: KernelLibrary;
  architecture: Architecture;
  activations: Activations;
  kernels: PassKernels;
  uniform: <N extends UniformName>(name: N, values: UniformValues<N>) => GPUBuffer;
  stepUniform: GPUBuffer;
  want: Want;
}) {
  const { library, architecture, activations: act, uniform, stepUniform: step, want } = parts;
  const { gemm, norm, addNorm, fused, rope, swiglu } = parts.kernels;
  const { hiddenSize, vocabSize, rmsNormEps: eps } = architecture;
  const hidden4 = pad4(hiddenSize) / 4;

  const apartKernels = [norm, rope, swiglu];
  const fusedForms = fused ? [fused.qkv.variants, fused.gateUp.variants] : [];
  const apartMade = fromThenOn(() => apartKernels.every(isMade));
  const fusedMade = fromThenOn(() => fusedForms.every((forms) => forms.some(({ kernel }) => isMade(kernel))));

  /** Whether kernels of few rows serve a piece: they serve any while the others are not made, and the others do theirs. */
  const isFused = ({ numRows }: Piece): boolean => {
    if (!fused) return false;
    if (numRows > MOST_FUSED_ROWS) {
      if (apartMade()) return false;
      for (const kernel of [...apartKernels, gemmFor(gemm, numRows, EVEN).kernel]) want(kernel);
      return true;
    }
    if (fusedMade()) return true;
    for (const forms of fusedForms) want(gemmFor(forms, numRows, EVEN).kernel);
    return false;
  };

  /** a times a matrix, with its bias: all rows, or for a piece of the logits the rows that get some. */
  const multiply = (
    label: string,
    a: GPUBuffer,
    { inputs4, columns4, bias, buffer }: DeviceMatrix,
    { add = false, piece = null, norm = null, variants = gemm, to }: ProductEnd,
  ): Stage => {
    const logits = piece !== null;
    const params = uniform('gemm', {
      ...plainProduct(inputs4, columns4),
      use_bias: Number(bias !== null),
      add: Number(add),
      count: Number(logits),
      ...(piece && { stride4: pad4(vocabSize) / 4, first4: piece.first / 4 }),
      ...(norm && { inputs: hiddenSize, eps }),
    });
    const buffers = [a, buffer, bias ?? act.none, norm ?? act.none, params, step, ...to];
    // One bind group for all variants: their layouts are equal.
    const bindGroup = library.bind(variants[0]!.kernel, label, buffers);
    return (piece) => {
      const rows = logits ? piece.logitRows.length : piece.numRows;
      const variant = madeGemmFor(variants, rows, columns4, want);
      const y = Math.ceil(rows / variant.rows);
      return {
        kernel: variant.kernel,
        bindGroup,
        label,
        x: Math.ceil(columns4 / variant.columns4),
        y,
        work: y * variant.rows * 16 * inputs4 * columns4,
      };
    };
  };

  const normParams = uniform('rmsNorm', { hidden: hiddenSize, hidden4, eps });
  /** to = from normalised; `added`: added to it. */
  const normalise = (
    label: string,
    weight: GPUBuffer,
    { from = act.x, to = act.normed, added = false } = {},
  ): Stage => {
    const kernel = added ? addNorm! : norm;
    const bindGroup = library.bind(kernel, label, [from, weight, act.logitRows, to, normParams, step]);
    return ({ numRows }) => ({ kernel, bindGroup, label, x: numRows, y: 1, work: numRows * hidden4 });
  };

  /** x += a matrix's product, normalised where the model wants that. */
  const addToX = (label: string, a: GPUBuffer, matrix: DeviceMatrix, outNorm: GPUBuffer | null): Stage[] => {
    if (!outNorm) return [multiply(label, a, matrix, { to: [act.x], add: true })];
    // normed is free: what was computed from it is in `a`.
    return [
      multiply(label, a, matrix, { to: [act.normed] }),
      normalise(`${label} norm`, outNorm, { from: act.normed, to: act.x, added: true }),
    ];
  };

  /** x normalised, times a matrix, and what follows: for few rows as fused as it can be, else each by itself. */
  const normedProduct = (of: NormedProduct): Stage[] => {
    const { names, weight, matrix, out, fused: kernels, whole, after } = of;
    const apart = [
      normalise(names.norm, weight),
      multiply(names.product, act.normed, matrix, { to: [out] }),
      after,
    ];
    if (!kernels) return apart;
    const { variants } = kernels;
    const to = kernels.whole ? whole : [out];
    const product = multiply(names.product, act.x, matrix, { norm: weight, variants, to });
    return [
      ...(kernels.whole ? [product] : [product, after]).map((of) => where(isFused, of)),
      ...apart.map((of) => where((piece) => !isFused(piece), of)),
    ];
  };

  return { multiply, addToX, normedProduct, normParams };
}
