/**
 * The pipelines of a forward pass. They follow from the model's shape and the adapter, not from weights, and are made and
 * compiled while weights load.
 */
import type { GpuDevice } from '../gpu/device.ts';
import { type Kernel, type KernelLibrary, kernels } from '../gpu/kernels.ts';
import { type FusedKernels, fusedKernels } from './fused-kernels.ts';
import type { GemmChoice } from './gemm-forms.ts';
import {
  type AdapterForm,
  type AttentionVariants,
  attentionVariants,
  type GemmVariant,
  gemmVariants,
} from './kernel-variants.ts';
import { matricesOf } from './matrices.ts';
import { type Architecture, pad4 } from './types.ts';

export interface PassKernels {
  gemm: readonly GemmVariant[];
  /** For few rows; null: each kernel by itself. */
  fused: FusedKernels | null;
  attention: AttentionVariants;
  embed: Kernel;
  norm: Kernel;
  /** The same, added to what is there; null for a model without output norms. */
  addNorm: Kernel | null;
  /** The same as `norm`, of rows that get logits. */
  logitNorm: Kernel;
  rope: Kernel;
  swiglu: Kernel;
  sample: Kernel;
}

export interface PassKernelShape {
  architecture: Architecture;
  blockSize: number;
  maxModelLen: number;
  weightsF32: boolean;
  kvF32: boolean;
  /** null: the forms that the adapter takes unmeasured. */
  gemm: GemmChoice | null;
  /** Fuse what can be, for few rows. */
  fuse: boolean;
}

/** Throws InternalError with the shader's line. */
export async function createPassKernels(
  library: KernelLibrary,
  form: AdapterForm,
  { architecture, blockSize, maxModelLen, weightsF32, kvF32, gemm: choice, fuse }: PassKernelShape,
): Promise<PassKernels> {
  const { headDim, numHeads, numKvHeads } = architecture;
  const WORKGROUP = form.workgroup;
  const WEIGHTS_F32 = Number(weightsF32);
  const KV_F32 = Number(kvF32);
  const group = numHeads / numKvHeads;
  const norm = (ADD: number, GATHER: number) => library.get('rmsNorm', { SUMS: form.reducing, ADD, GATHER });
  const matrixKernels = async () => {
    const odd = hasOddColumns(architecture);
    const gemm = await gemmVariants(library, form, weightsF32, odd, choice ?? undefined);
    const fused = fuse ? await fusedKernels(library, form, gemm, { architecture, blockSize, kvF32 }) : null;
    return { gemm, fused };
  };
  const [{ gemm, fused }, attention, embed, plainNorm, addNorm, logitNorm, rope, swiglu, sample] =
    await Promise.all([
      matrixKernels(),
      attentionVariants(library, form, {
        headDim,
        blockSize,
        kvHeads: numKvHeads,
        group,
        kvF32,
        maxModelLen,
      }),
      library.get('embedding', { WORKGROUP, WEIGHTS_F32 }),
      norm(0, 0),
      architecture.outputNorms ? norm(1, 0) : null,
      norm(0, 1),
      library.get('ropeKvWrite', {
        WORKGROUP,
        HEAD_DIM: headDim,
        BLOCK_SIZE: blockSize,
        KV_F32,
        QK_NORM: Number(architecture.qkNorm),
      }),
      library.get('swiglu', { WORKGROUP, GELU: Number(architecture.activation === 'gelu') }),
      library.get('sample', { WORKGROUP }),
    ]);
  return { gemm, fused, attention, embed, norm: plainNorm, addNorm, logitNorm, rope, swiglu, sample };
}

const hasOddColumns = (architecture: Architecture): boolean =>
  Object.values(matricesOf(architecture)).some(({ outputs }) => (pad4(outputs) / 4) % 2 !== 0);

/** Enough for any kernel's uniforms, and for what it reads when all of them are 1. */
const SCRATCH_BYTES = 256;
const MOST_BINDINGS = Math.max(...Object.values(kernels).map(({ bindings }) => bindings.length));

/**
 * Submits a dispatch of each pipeline, on buffers full of ones, since drivers compile at the first dispatch. Two engines
 * that go through them from opposite ends compile half each, where the driver keeps what it compiled on disk.
 */
export async function submitFirstDispatches(
  { device }: GpuDevice,
  library: KernelLibrary,
  order: 'forwards' | 'backwards',
): Promise<void> {
  const all = await library.all();
  // What one kernel writes no other reads: it could be the bound of a loop.
  const [read, written] = ['read', 'written'].map((what) =>
    Array.from({ length: MOST_BINDINGS }, (_, i) => onesBuffer(device, `compile ${what} ${i}`)),
  ) as [GPUBuffer[], GPUBuffer[]];
  for (const kernel of order === 'forwards' ? all : all.toReversed()) {
    const buffers = kernels[kernel.name].bindings.map((kind, i) => (kind === 'write' ? written : read)[i]!);
    const bindGroup = library.bind(kernel, 'compile', buffers);
    const encoder = device.createCommandEncoder({ label: 'compile' });
    const pass = encoder.beginComputePass({ label: 'compile' });
    library.encode(pass, { kernel, bindGroup, x: 1, y: 1 });
    pass.end();
    // One by one: what one engine has compiled is on disk before the next begins.
    device.queue.submit([encoder.finish()]);
  }
  for (const buffer of [...read, ...written]) buffer.destroy();
}

function onesBuffer(device: GPUDevice, label: string): GPUBuffer {
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.UNIFORM;
  const buffer = device.createBuffer({ label, size: SCRATCH_BYTES, usage, mappedAtCreation: true });
  new Uint32Array(buffer.getMappedRange()).fill(1);
  buffer.unmap();
  return buffer;
}
