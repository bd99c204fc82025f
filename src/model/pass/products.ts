/**
 * A layer's matrix products as stages of the pass, with the norm before and the steps after each. For few rows they are
 * one dispatch (fused-kernels.ts), for more rows one dispatch each.
 */
import { isCompiled, type KernelLibrary } from '../../gpu/kernels.ts';
import type { UniformName, UniformValues } from '../../gpu/uniforms.ts';
import { type FusedMatrix, MOST_FUSED_ROWS } from '../kernels/fused-kernels.ts';
import { compiledGemmFor, type GemmVariant, gemmFor, type Want } from '../kernels/kernel-variants.ts';
import type { PassKernels } from '../kernels/pass-kernels.ts';
import { type Architecture, pad4 } from '../types.ts';
import type { DeviceMatrix } from '../weights/device-weights.ts';
import { plainProduct } from '../weights/matrices.ts';
import type { Activations } from './activations.ts';
import type { Stage } from './stage.ts';
import type { Piece } from './step-inputs.ts';

/** What happens to a product. */
interface ProductEnd {
  /** Buffers of the kernel's end. */
  to: readonly GPUBuffer[];
  /** Add the product to the output. */
  add?: boolean;
  /** Set for a piece of the logits; `first` is its first column. */
  piece?: { first: number } | null;
  /** Weights of the RMSNorm applied to the input rows first. The variants must support it. */
  norm?: GPUBuffer | null;
  variants?: readonly GemmVariant[];
}

/** A number of vec4 columns that the plain forms always serve. */
const EVEN = 2;

/** Caches a true result, since a kernel once created stays. Called for every stage of every step. */
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
  /** Weights of the norm. */
  weight: GPUBuffer;
  matrix: DeviceMatrix;
  out: GPUBuffer;
  /** null: never fused. */
  fused: FusedMatrix | null;
  /** Output buffers of a kernel that includes everything after the product. */
  whole: readonly GPUBuffer[];
  /** The stage after the product, if it is separate. */
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
  const separateCompiled = fromThenOn(() => apartKernels.every(isCompiled));
  const fusedCompiled = fromThenOn(() =>
    fusedForms.every((forms) => forms.some(({ kernel }) => isCompiled(kernel))),
  );

  /**
   * Whether fused kernels serve a piece. Fused kernels also serve many rows while the separate ones have no pipeline,
   * and separate ones serve few rows while the fused ones have none.
   */
  const isFused = ({ numRows }: Piece): boolean => {
    if (!fused) return false;
    if (numRows > MOST_FUSED_ROWS) {
      if (separateCompiled()) return false;
      for (const kernel of [...apartKernels, gemmFor(gemm, numRows, EVEN).kernel]) want(kernel);
      return true;
    }
    if (fusedCompiled()) return true;
    for (const forms of fusedForms) want(forms.find(({ upTo }) => numRows <= upTo)!.kernel);
    return false;
  };

  /** `a` times a matrix, plus its bias: for all rows, or for a piece of the logits, the rows that get logits. */
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
    // All variants share a bind group, since their layouts are equal.
    const bindGroup = library.bind(variants[0]!.kernel, label, buffers);
    return (piece) => {
      const rows = logits ? piece.logitRows.length : piece.numRows;
      const variant = compiledGemmFor(variants, rows, columns4, want);
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
  /** to = RMSNorm(from), or to += RMSNorm(from) if `added`. */
  const normalise = (
    label: string,
    weight: GPUBuffer,
    { from = act.x, to = act.normed, added = false } = {},
  ): Stage => {
    const kernel = added ? addNorm! : norm;
    const bindGroup = library.bind(kernel, label, [from, weight, act.logitRows, to, normParams, step]);
    return ({ numRows }) => ({ kernel, bindGroup, label, x: numRows, y: 1, work: numRows * hidden4 });
  };

  /** x += the product, normalised first if the model has output norms. */
  const addToX = (label: string, a: GPUBuffer, matrix: DeviceMatrix, outNorm: GPUBuffer | null): Stage[] => {
    if (!outNorm) return [multiply(label, a, matrix, { to: [act.x], add: true })];
    // `normed` is free here: its consumers' result is already in `a`.
    return [
      multiply(label, a, matrix, { to: [act.normed] }),
      normalise(`${label} norm`, outNorm, { from: act.normed, to: act.x, added: true }),
    ];
  };

  /** x normalised, times a matrix, then `after`: fused as far as possible for few rows, else as separate dispatches. */
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
