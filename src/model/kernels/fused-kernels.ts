/**
 * Matrix kernels that include the steps before and after them, for few rows, where a dispatch costs as much as its
 * work. A layer then has 5 dispatches instead of 9. The results are the same bits as those of the separate kernels. The
 * model's shape determines which steps can be fused.
 */
import type { KernelLibrary, KernelName, Overrides } from '../../gpu/kernels.ts';
import { type Architecture, pad4 } from '../types.ts';
import { type MatrixName, matricesOf } from '../weights/matrices.ts';
import { PANEL_COLUMNS } from '../weights/panels.ts';
import { type AdapterForm, type GemmVariant, gemmFor } from './kernel-variants.ts';

/** Larger pieces use separate kernels: in a fused kernel, every workgroup would normalise all rows again. */
export const MOST_FUSED_ROWS = 4;

/** A matrix kernel that applies RMSNorm to its input rows first. */
export interface FusedMatrix {
  variants: readonly GemmVariant[];
  /** The kernel also includes what follows the product: RoPE and the write of K and V, or the gated activation. */
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

/** Creates no pipelines. null if this adapter's forms for few rows cannot be fused. */
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
    // Paired columns must lie in whole panels, or lanes of a subgroup would read rows of different strides.
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
  // QK norm needs a whole head, which may be wider than a workgroup.
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
