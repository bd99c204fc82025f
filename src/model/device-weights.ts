/** Weights on the device, uploaded layer by layer so that only one layer is in memory twice. */
import { AdapterError } from '../errors.ts';
import type { GpuDevice } from '../gpu/device.ts';
import { type Matrix, type ModelWeights, pad4 } from './types.ts';

/** A matrix [inputs][columns] in a buffer, both padded to vec4s. */
export interface DeviceMatrix {
  buffer: GPUBuffer;
  /** Inputs and columns / 4. */
  inputs4: number;
  columns4: number;
  bias: GPUBuffer | null;
}

export interface DeviceLayer {
  inputNorm: GPUBuffer;
  qkv: DeviceMatrix;
  /** [q, k][head dim]; null without QK norm. */
  headNorms: GPUBuffer | null;
  o: DeviceMatrix;
  postAttentionNorm: GPUBuffer;
  gateUp: DeviceMatrix;
  down: DeviceMatrix;
}

export interface DeviceWeights {
  embedding: DeviceMatrix;
  /** The embedding itself when tied. */
  lmHead: DeviceMatrix;
  finalNorm: GPUBuffer;
  layers: readonly DeviceLayer[];
  /** Of all buffers. */
  bytes: number;
  destroy(): void;
}

/** Throws AdapterError when a matrix is larger than the adapter binds. onProgress: layers done of all. */
export async function uploadWeights(
  gpu: GpuDevice,
  weights: ModelWeights,
  onProgress: (done: number, total: number) => void,
): Promise<DeviceWeights> {
  const buffers: GPUBuffer[] = [];
  const upload = (label: string, values: Float32Array | Uint16Array): GPUBuffer => {
    const buffer = uploadArray(gpu, label, values, weights.dtype);
    buffers.push(buffer);
    return buffer;
  };
  const matrix = (label: string, source: Matrix, bias: Float32Array | null = null): DeviceMatrix => ({
    buffer: upload(label, source.data),
    inputs4: pad4(source.rows) / 4,
    columns4: pad4(source.columns) / 4,
    bias: bias ? upload(`${label} bias`, bias) : null,
  });
  const { numLayers } = weights.architecture;
  const total = numLayers + 1;
  const embedding = matrix('embedding', await weights.embedding());
  const head = await weights.lmHead();
  const lmHead = head ? matrix('lm head', head) : embedding;
  const finalNorm = upload('final norm', await weights.finalNorm());
  onProgress(1, total);
  const layers: DeviceLayer[] = [];
  for (let index = 0; index < numLayers; index++) {
    gpu.assertAlive();
    const layer = await weights.layer(index);
    const name = (tensor: string) => `layer ${index} ${tensor}`;
    layers.push({
      inputNorm: upload(name('input norm'), layer.inputNorm),
      qkv: matrix(name('qkv'), layer.qkv, layer.qkvBias),
      headNorms:
        layer.qNorm && layer.kNorm
          ? upload(name('head norms'), Float32Array.from([...layer.qNorm, ...layer.kNorm]))
          : null,
      o: matrix(name('o'), layer.o, layer.oBias),
      postAttentionNorm: upload(name('post-attention norm'), layer.postAttentionNorm),
      gateUp: matrix(name('gate up'), layer.gateUp, layer.gateUpBias),
      down: matrix(name('down'), layer.down, layer.downBias),
    });
    onProgress(index + 2, total);
  }
  return {
    embedding,
    lmHead,
    finalNorm,
    layers,
    bytes: buffers.reduce((sum, buffer) => sum + buffer.size, 0),
    destroy: () => {
      for (const buffer of buffers) buffer.destroy();
    },
  };
}

/** Values padded with zeros to 16 bytes. */
function uploadArray(
  gpu: GpuDevice,
  label: string,
  values: Float32Array | Uint16Array,
  dtype: string,
): GPUBuffer {
  const size = Math.max(16, (values.byteLength + 15) & ~15);
  const limit = gpu.device.limits.maxStorageBufferBindingSize;
  if (size > limit) {
    throw new AdapterError(
      `the weights '${label}' have ${size} bytes as ${dtype}, and ${gpu.report.name} binds ${limit} at most ` +
        '(maxStorageBufferBindingSize): use a smaller model, f16 weights, or another adapter (--adapter)',
    );
  }
  const buffer = gpu.device.createBuffer({
    label,
    size,
    usage: GPUBufferUsage.STORAGE,
    mappedAtCreation: true,
  });
  const bytes = new Uint8Array(buffer.getMappedRange());
  bytes.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
  buffer.unmap();
  return buffer;
}
