/**
 * Contenders for matrix products on the same adapter. Each takes two f32 matrices in host memory and returns the product
 * there, so that transfers count for all. Other libraries' packages are optional.
 */
import { ConfigError } from '../../../errors.ts';
import { KernelLibrary } from '../../../gpu/kernels.ts';
import { uniformBuffer } from '../../../gpu/uniforms.ts';
import { adapterForm, gemmFor, gemmVariants } from '../../../model/kernels/kernel-variants.ts';
import { openDevice } from '../../../model/open-device.ts';
import { plainProduct } from '../../../model/weights/matrices.ts';
import { nodePlatform } from '../../../platform/node.ts';
import { matMulModel } from './onnx-model.ts';

export interface Shape {
  m: number;
  k: number;
  n: number;
}

export type Multiply = (a: Float32Array, b: Float32Array) => Promise<Float32Array>;

export const PEER_PACKAGES = [
  'onnxruntime-node@1.30',
  '@tensorflow/tfjs-core@4.22',
  '@tensorflow/tfjs-backend-webgpu@4.22',
];

export const contenders = {
  kvferry: ours,
  'onnxruntime WebGPU': (shape: Shape) => onnxruntime(shape, 'webgpu'),
  'tfjs WebGPU': tfjs,
  'onnxruntime CPU': (shape: Shape) => onnxruntime(shape, 'cpu'),
} as const satisfies Record<string, (shape: Shape) => Promise<Multiply>>;

export type ContenderName = keyof typeof contenders;

async function ours({ m, k, n }: Shape): Promise<Multiply> {
  const gpu = await openDevice(nodePlatform, await nodePlatform.createGpu(), {
    bufferBytes: 4 * Math.max(m * k, k * n, m * n),
  });
  const library = new KernelLibrary(gpu, nodePlatform.readShader);
  const variants = gemmVariants(library, adapterForm(gpu.report), true, [n / 4]);
  const { kernel, rows, columns4 } = gemmFor(variants, m, n / 4);
  await library.make(kernel);
  const { device } = gpu;
  const { STORAGE, COPY_DST, COPY_SRC, MAP_READ } = GPUBufferUsage;
  const buffer = (size: number, usage: number) => device.createBuffer({ size, usage });
  const [inA, inB] = [buffer(4 * m * k, STORAGE | COPY_DST), buffer(4 * k * n, STORAGE | COPY_DST)];
  const out = buffer(4 * m * n, STORAGE | COPY_SRC);
  const back = buffer(4 * m * n, MAP_READ | COPY_DST);
  const [norms, bias] = [buffer(16, STORAGE | COPY_DST), buffer(16, STORAGE | COPY_DST)];
  gpu.zero(norms, bias);
  const bindGroup = library.bind(kernel, 'peers', [
    ...[inA, inB, norms, bias],
    // Weights in the layout of the others: row by row.
    uniformBuffer(device, 'gemm', { ...plainProduct(k / 4, n / 4), panel4: n / 4 }),
    uniformBuffer(device, 'step', { rows: m, logit_rows: 0 }),
    out,
  ]);
  return async (a, b) => {
    device.queue.writeBuffer(inA, 0, a as Float32Array<ArrayBuffer>);
    device.queue.writeBuffer(inB, 0, b as Float32Array<ArrayBuffer>);
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    library.encode(pass, { kernel, bindGroup, x: Math.ceil(n / 4 / columns4), y: Math.ceil(m / rows) });
    pass.end();
    encoder.copyBufferToBuffer(out, 0, back, 0, 4 * m * n);
    await gpu.run([[encoder.finish()]], () => back.mapAsync(GPUMapMode.READ));
    const result = new Float32Array(back.getMappedRange().slice(0));
    back.unmap();
    return result;
  };
}

interface OnnxRuntime {
  InferenceSession: {
    create(
      model: Uint8Array,
      options: object,
    ): Promise<{ run(feeds: object): Promise<Record<string, OnnxTensor>> }>;
  };
  Tensor: new (type: string, data: Float32Array, dims: readonly number[]) => OnnxTensor;
}
interface OnnxTensor {
  getData(): Promise<Float32Array>;
}

async function onnxruntime({ m, k, n }: Shape, provider: 'webgpu' | 'cpu'): Promise<Multiply> {
  const { InferenceSession, Tensor } = await peer<OnnxRuntime>('onnxruntime-node');
  const session = await InferenceSession.create(matMulModel(m, k, n), { executionProviders: [provider] });
  return async (a, b) => {
    const { c } = await session.run({
      a: new Tensor('float32', a, [m, k]),
      b: new Tensor('float32', b, [k, n]),
    });
    return c!.getData();
  };
}

interface TensorFlow {
  setBackend(name: string): Promise<boolean>;
  ready(): Promise<void>;
  tensor2d(values: Float32Array, shape: [number, number]): TensorFlowTensor;
  matMul(a: TensorFlowTensor, b: TensorFlowTensor): TensorFlowTensor;
}
interface TensorFlowTensor {
  data(): Promise<Float32Array>;
  dispose(): void;
}

async function tfjs({ m, k, n }: Shape): Promise<Multiply> {
  const gpu = await nodePlatform.createGpu();
  const navigator = { gpu, userAgent: 'node', platform: process.platform };
  Object.defineProperty(globalThis, 'navigator', { value: navigator, configurable: true });
  const tf = await peer<TensorFlow>('@tensorflow/tfjs-core');
  await peer('@tensorflow/tfjs-backend-webgpu');
  await tf.setBackend('webgpu');
  await tf.ready();
  return async (a, b) => {
    const tensors = [tf.tensor2d(a, [m, k]), tf.tensor2d(b, [k, n])] as const;
    const product = tf.matMul(...tensors);
    const result = await product.data();
    for (const tensor of [...tensors, product]) tensor.dispose();
    return result;
  };
}

/** Throws ConfigError if the package is not installed. */
async function peer<T>(name: string): Promise<T> {
  try {
    return (await import(name)) as T;
  } catch (error) {
    if ((error as { code?: string }).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new ConfigError(`${name} is not installed`);
  }
}
