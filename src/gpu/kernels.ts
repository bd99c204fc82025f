/**
 * The table of kernels: each one's shader, the parts appended to it, and its bindings. KernelLibrary compiles one
 * pipeline per set of overrides. A first use can compile for seconds, so it counts those that happen after the warm-up.
 */

import type { Arithmetic } from '../config/arithmetic.ts';
import { InternalError, invariant, messageOf } from '../errors.ts';
import type { GpuDevice } from './device.ts';

type Binding = 'read' | 'write' | 'uniform';

interface KernelDescription {
  shader: string;
  /**
   * Files in shaders/parts, in the order they are appended. 'products' stands for the products file of the arithmetic.
   */
  parts?: readonly string[];
  /** Parts appended last: what this kernel does with its results, for a shader that serves several kernels. */
  ends?: readonly string[];
  /** In binding order; a test compares them with the shader. */
  bindings: readonly Binding[];
}

const step = ['step'] as const;
const product = ['products', 'gemm_params', 'panels', ...step] as const;
const productInputs = ['read', 'read', 'read', 'read', 'uniform', 'uniform'] as const;
const toOut = [...productInputs, 'write'] as const;
const toQkv = [...productInputs, 'read', 'read', 'write', 'write', 'uniform'] as const;
const gemm = { parts: ['gemm_inputs', ...product], ends: ['gemm_store'], bindings: toOut } as const;
const wide = { shader: 'gemm_wide', parts: [...product, 'row_scale_lanes', 'squares'] } as const;
const portable = { shader: 'gemm_portable', parts: [...gemm.parts, 'row_scale', 'squares'] } as const;
const split = {
  shader: 'gemm_split',
  parts: ['split_sums', 'k_parts', ...product, 'row_scale', 'squares'],
} as const;
const gated = ['gated_store', 'gated'] as const;
const qkv = ['qkv_store', 'rope_store'] as const;
const attention = {
  parts: ['attention_inputs', 'running_softmax'],
  bindings: ['read', 'read', 'read', 'read', 'read', 'write', 'uniform'],
} as const;

export const kernels = {
  embedding: {
    shader: 'embedding',
    parts: ['panels', ...step],
    bindings: ['read', 'read', 'write', 'uniform', 'uniform'],
  },
  rmsNorm: {
    shader: 'rms_norm',
    parts: ['row_scale', 'squares', ...step],
    bindings: ['read', 'read', 'read', 'write', 'uniform', 'uniform'],
  },
  gemm: { shader: 'gemm', ...gemm },
  gemmBlocked: { ...gemm, shader: 'gemm_blocked', parts: ['gemm_inputs', 'k_parts', ...product] },
  gemmTiled: { shader: 'gemm_tiled', ...gemm },
  gemmWide: { ...wide, ends: ['wide_columns', 'gemm_store'], bindings: toOut },
  gemmWideGated: { ...wide, ends: ['wide_pairs', ...gated], bindings: toOut },
  gemmWideQkv: { ...wide, ends: ['wide_pairs', ...qkv], bindings: toQkv },
  gemmSplit: { ...split, ends: ['split_columns', 'gemm_store'], bindings: toOut },
  gemmSplitGated: { ...split, ends: ['split_pairs', ...gated], bindings: toOut },
  gemmSplitQkv: { ...split, ends: ['split_pairs', ...qkv], bindings: toQkv },
  gemmPortable: { ...portable, ends: ['portable_columns', 'gemm_store'], bindings: toOut },
  gemmPortableGated: { ...portable, ends: ['portable_pairs', ...gated], bindings: toOut },
  gemmPortableQkv: { ...portable, ends: ['portable_pairs', ...qkv], bindings: toQkv },
  ropeKvWrite: {
    shader: 'rope_kv_write',
    parts: ['rope_store', 'rope_straddling', ...step],
    bindings: ['read', 'read', 'read', 'read', 'write', 'write', 'uniform', 'uniform'],
  },
  attention: { shader: 'attention', ...attention },
  attentionBlocked: {
    ...attention,
    shader: 'attention_blocked',
    parts: ['attention_inputs', 'attention_tiles', 'attention_sums', 'running_softmax'],
  },
  attentionPortable: {
    ...attention,
    shader: 'attention_portable',
    parts: ['attention_inputs', 'attention_four_rows', 'running_softmax'],
  },
  attentionCombine: {
    shader: 'attention_combine',
    parts: ['running_softmax', ...step],
    bindings: ['read', 'read', 'write', 'uniform', 'uniform'],
  },
  swiglu: { shader: 'swiglu', parts: ['gated', ...step], bindings: ['read', 'write', 'uniform', 'uniform'] },
  sample: {
    shader: 'sample',
    parts: ['sample_weights'],
    bindings: ['read', 'read', 'read', 'write', 'uniform'],
  },
  ceilingMultiplyAdd: { shader: 'ceiling_multiply_add', bindings: ['read', 'write', 'uniform'] },
  ceilingRead: { shader: 'ceiling_read', bindings: ['read', 'write', 'uniform'] },
} as const satisfies Record<string, KernelDescription>;

export type KernelName = keyof typeof kernels;
export type Overrides = Readonly<Record<string, number>>;

export type ReadShader = (name: string) => Promise<string>;

/** A kernel's files without extension: its shader, then its parts and ends. */
export function shaderFiles(name: KernelName, arithmetic: Arithmetic): string[] {
  const { shader, parts = [], ends = [] }: KernelDescription = kernels[name];
  const files = [...parts, ...ends].map((part) => (part === 'products' ? `${part}_${arithmetic}` : part));
  return [shader, ...files.map((file) => `parts/${file}`)];
}

/**
 * A kernel's complete WGSL. The shader comes first, so that `enable` leads and line numbers in errors are the shader's.
 */
export async function shaderText(
  name: KernelName,
  readShader: ReadShader,
  arithmetic: Arithmetic,
): Promise<string> {
  const files = shaderFiles(name, arithmetic);
  const text = (await Promise.all(files.map(readShader))).join('\n');
  return files.includes('parts/products_f16') ? `enable f16; ${text}` : text;
}

const bufferType = { read: 'read-only-storage', write: 'storage', uniform: 'uniform' } as const;

/** A kernel with its overrides. It can be dispatched once its pipeline is created. */
export interface Kernel {
  readonly name: KernelName;
  readonly overrides: Overrides;
  /** null until created. */
  pipeline: GPUComputePipeline | null;
  used: boolean;
}

export const isCompiled = ({ pipeline }: Kernel): boolean => pipeline !== null;

/** One dispatch. x, y and z count workgroups. */
export interface Dispatch {
  kernel: Kernel;
  bindGroup: GPUBindGroup;
  x: number;
  y: number;
  /** Default 1. */
  z?: number;
}

const keyOf = (name: KernelName, overrides: Overrides): string => `${name} ${JSON.stringify(overrides)}`;

export class KernelLibrary {
  readonly #gpu: GpuDevice;
  readonly #readShader: ReadShader;
  readonly #modules = new Map<KernelName, Promise<GPUShaderModule>>();
  readonly #layouts = new Map<KernelName, GPUBindGroupLayout>();
  readonly #kernels = new Map<string, Kernel>();
  readonly #making = new Map<Kernel, Promise<Kernel>>();
  #warm = false;
  #firstUses = 0;

  constructor(gpu: GpuDevice, readShader: ReadShader) {
    this.#gpu = gpu;
    this.#readShader = readShader;
  }

  /** The kernel with these overrides; every caller gets the same object. Creates no pipeline. */
  kernel(name: KernelName, overrides: Overrides): Kernel {
    const key = keyOf(name, overrides);
    let kernel = this.#kernels.get(key);
    if (!kernel) {
      kernel = { name, overrides, pipeline: null, used: false };
      this.#kernels.set(key, kernel);
    }
    return kernel;
  }

  /** Creates the kernel's pipeline, once. Throws InternalError with the shader's line. */
  make(kernel: Kernel): Promise<Kernel> {
    let making = this.#making.get(kernel);
    if (!making) {
      making = this.#create(kernel);
      this.#making.set(kernel, making);
    }
    return making;
  }

  /** A kernel with its pipeline. Throws InternalError with the shader's line. */
  get(name: KernelName, overrides: Overrides): Promise<Kernel> {
    return this.make(this.kernel(name, overrides));
  }

  /** Number of pipelines created. */
  get count(): number {
    return [...this.#kernels.values()].filter(isCompiled).length;
  }

  /** `buffers` in binding order. */
  bind(kernel: Kernel, label: string, buffers: readonly GPUBuffer[]): GPUBindGroup {
    return this.#gpu.device.createBindGroup({
      label: `${kernel.name} ${label}`,
      layout: this.#layout(kernel.name),
      entries: buffers.map((buffer, binding) => ({ binding, resource: { buffer } })),
    });
  }

  encode(pass: GPUComputePassEncoder, { kernel, bindGroup, x, y, z = 1 }: Dispatch): void {
    if (!kernel.used) {
      kernel.used = true;
      if (this.#warm) this.#firstUses += 1;
    }
    invariant(kernel.pipeline !== null, () => `${kernel.name} is dispatched before its pipeline exists`);
    pass.setPipeline(kernel.pipeline);
    pass.setBindGroup(0, bindGroup);
    pass.dispatchWorkgroups(x, y, z);
  }

  /** Starts counting first uses of pipelines. */
  endWarmUp(): void {
    this.#warm = true;
  }

  firstUseCompilations(): number {
    return this.#firstUses;
  }

  async #create(kernel: Kernel): Promise<Kernel> {
    const { name, overrides } = kernel;
    const { device } = this.#gpu;
    const key = keyOf(name, overrides);
    const module = await this.#module(name);
    const layout = device.createPipelineLayout({ label: key, bindGroupLayouts: [this.#layout(name)] });
    try {
      kernel.pipeline = await this.#gpu.guard(
        device.createComputePipelineAsync({
          label: key,
          layout,
          compute: { module, entryPoint: 'main', constants: overrides },
        }),
      );
      return kernel;
    } catch (error) {
      this.#gpu.assertAlive();
      const message = messageOf(error);
      throw new InternalError(`the kernel ${key} does not compile on this adapter: ${message}`, {
        cause: error,
      });
    }
  }

  #module(name: KernelName): Promise<GPUShaderModule> {
    let module = this.#modules.get(name);
    if (!module) {
      module = this.#compile(name);
      this.#modules.set(name, module);
    }
    return module;
  }

  async #compile(name: KernelName): Promise<GPUShaderModule> {
    const { arithmetic = 'f32' } = this.#gpu.report;
    const code = await shaderText(name, this.#readShader, arithmetic);
    const files = shaderFiles(name, arithmetic).map((file) => `shaders/${file}.wgsl`);
    return this.#gpu.checked(
      () => this.#gpu.device.createShaderModule({ label: files[0]!, code }),
      (message) => new InternalError(`${files.join(', then ')}: ${message}`),
    );
  }

  #layout(name: KernelName): GPUBindGroupLayout {
    let layout = this.#layouts.get(name);
    if (!layout) {
      layout = this.#gpu.device.createBindGroupLayout({
        label: name,
        entries: kernels[name].bindings.map((binding, index) => ({
          binding: index,
          visibility: GPUShaderStage.COMPUTE,
          buffer: { type: bufferType[binding] },
        })),
      });
      this.#layouts.set(name, layout);
    }
    return layout;
  }
}
