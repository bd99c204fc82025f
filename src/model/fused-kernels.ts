/**
 * Matrix kernels that do what comes before and after them in the same dispatch, for few rows, where a dispatch costs as much
 * as its work: a layer is 5 in place of 9. They give the bits of the kernels that they stand for. Which parts of a layer a
 * model can have fused follows from its shape; the rest stays apart.
 */
import type { KernelLibrary, KernelName, Overrides } from '../gpu/kernels.ts';
import { type AdapterForm, type GemmVariant, gemmFor } from './kernel-variants.ts';
import { type MatrixName, matricesOf } from './matrices.ts';
import { PANEL_COLUMNS } from './panels.ts';
import { type Architecture, pad4 } from './types.ts';

/** Pieces of more rows take each kernel by itself: every workgroup would normalise all rows again. */
export const MOST_FUSED_ROWS = 4;

/** A matrix kernel that normalises its left side first. */
export interface FusedMatrix {
  variants: readonly GemmVariant[];
  /** It ends with what follows the product too: q and k rotated and K and V written, or the gated activation. */
  whole: boolean;
}

export interface FusedKernels {
  qkv: FusedMatrix;
  gateUp: FusedMatrix;
}

export interface FusedShape {
  architecture: Architecture;
  blockSize: number;
  kvF32: boolean;
}

/** Makes none of them. null: the adapter's forms for few rows are others than these. */
export function fusedKernels(
  library: KernelLibrary,
  { reducing }: AdapterForm,
  gemm: readonly GemmVariant[],
  { architecture, blockSize, kvF32 }: FusedShape,
): FusedKernels | null {
  const { headDim, intermediateSize, qkNorm, activation } = architecture;
  const matrices = matricesOf(architecture);
  const normed = { NORM: 1, SUMS: reducing };
  const fused = (
    name: MatrixName,
    end: 'Qkv' | 'Gated',
    pairs: boolean,
    overrides: Overrides,
  ): FusedMatrix | null => {
    const { outputs } = matrices[name];
    const columns4 = pad4(outputs) / 4;
    const bases = [...new Set([1, MOST_FUSED_ROWS].map((rows) => gemmFor(gemm, rows, columns4)))];
    if (!bases.every(({ kernel }) => fusible(kernel.name))) return null;
    // Partners are in whole panels, or a subgroup's lanes would read rows of several lengths.
    const whole = pairs && outputs % PANEL_COLUMNS === 0;
    const variants = bases.map((base) => ({
      ...base,
      leastColumns4: 0,
      kernel: library.kernel((whole ? `${base.kernel.name}${end}` : base.kernel.name) as KernelName, {
        ...base.kernel.overrides,
        ...normed,
        ...(whole ? overrides : {}),
      }),
    }));
    return { variants, whole };
  };
  // The norm of a head wants all of it, and a head may be wider than a workgroup.
  const qkv = fused('qkv', 'Qkv', headDim % 16 === 0 && !qkNorm, {
    HEAD_DIM: headDim,
    BLOCK_SIZE: blockSize,
    KV_F32: Number(kvF32),
  });
  const gateUp = fused('gate up', 'Gated', intermediateSize % 8 === 0, {
    GELU: Number(activation === 'gelu'),
  });
  return qkv && gateUp && { qkv, gateUp };
}

const fusible = (name: KernelName): boolean =>
  name === 'gemmWide' || name === 'gemmPortable' || name === 'gemmSplit';
