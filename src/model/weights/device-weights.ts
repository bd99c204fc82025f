/**
 * Weights on the device, loaded layer by layer. Large matrices are converted directly in mapped device buffers; small
 * ones are converted in scratch memory and copied.
 */
import { bytesOf } from '../../copy-bytes.ts';
import { wholeVec4s } from '../../gpu/buffer-size.ts';
import type { GpuDevice } from '../../gpu/device.ts';
import { sumOf } from '../../sum.ts';
import { type Allocate, type Matrix, type ModelWeights, pad4 } from '../types.ts';
import { PIECE_BYTES, vocabularyPieces } from './weight-sizes.ts';

/** A matrix [inputs][columns] in one buffer, both dimensions padded to vec4s. */
export interface DeviceMatrix {
  buffer: GPUBuffer;
  /** Inputs / 4 and columns / 4. */
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
  attentionOutNorm: GPUBuffer | null;
  mlpNorm: GPUBuffer;
  gateUp: DeviceMatrix;
  down: DeviceMatrix;
  mlpOutNorm: GPUBuffer | null;
}

/** A matrix as pieces of columns, each small enough to bind. `first`: the piece's first column. */
export type DevicePieces = readonly (DeviceMatrix & { first: number })[];

export interface DeviceWeights {
  embedding: DevicePieces;
  /** The embedding itself if tied. */
  lmHead: DevicePieces;
  finalNorm: GPUBuffer;
  layers: readonly DeviceLayer[];
  /** Bytes of all buffers. */
  bytes: number;
  destroy(): void;
}

/** Enough for a layer of a small model. */
const SCRATCH_BYTES = 4 * 2 ** 20;

/**
 * Host memory in which small matrices are converted before they are copied, reused for all of them. Mapping a separate
 * buffer for each would take a driver longer than copying a small one.
 */
class Scratch {
  readonly #memory: ArrayBuffer;
  #taken = 0;
  #inUse = 0;

  constructor(bytes: number) {
    this.#memory = new ArrayBuffer(bytes);
  }

  /** null if it does not fit. */
  take(bytes: number): Uint8Array<ArrayBuffer> | null {
    if (this.#taken + bytes > this.#memory.byteLength) return null;
    const place = new Uint8Array(this.#memory, this.#taken, bytes);
    this.#taken += wholeVec4s(bytes);
    this.#inUse++;
    return place;
  }

  /** Ignores views of other memory. */
  giveBack({ buffer }: Float32Array | Uint16Array): void {
    if (buffer !== this.#memory) return;
    this.#inUse--;
    if (this.#inUse === 0) this.#taken = 0;
  }
}

/**
 * Requires a successful checkLargestWeight (weight-sizes.ts). onProgress: steps done and in all, one per layer plus one
 * for the rest. pieceBytes: most bytes of a piece of the embedding.
 */
export async function uploadWeights(
  gpu: GpuDevice,
  weights: ModelWeights,
  onProgress: (done: number, total: number) => void,
  pieceBytes = PIECE_BYTES,
): Promise<DeviceWeights> {
  const buffers: GPUBuffer[] = [];
  const scratch = new Scratch(SCRATCH_BYTES);
  /** Mapped buffers, by the view that is being filled. */
  const filling = new Map<Float32Array | Uint16Array, GPUBuffer>();
  const allocate: Allocate = (name, dtype, elements) => {
    const bytes = elements * (dtype === 'f16' ? 2 : 4);
    const place = scratch.take(bytes);
    const buffer = place ? null : mappedBuffer(gpu, name, bytes);
    const range = place ?? new Uint8Array(buffer!.getMappedRange());
    // Padding rows and columns are never written.
    range.fill(0);
    const Values = dtype === 'f16' ? Uint16Array : Float32Array;
    const view = new Values(range.buffer, range.byteOffset, elements);
    if (buffer) filling.set(view, buffer);
    return view;
  };
  const upload = (label: string, values: Float32Array | Uint16Array): GPUBuffer => {
    const mapped = filling.get(values);
    filling.delete(values);
    mapped?.unmap();
    const buffer = mapped ?? writtenBuffer(gpu, values);
    scratch.giveBack(values);
    buffer.label = label;
    buffers.push(buffer);
    return buffer;
  };
  const vector = (label: string, values: Float32Array | null): GPUBuffer | null =>
    values && upload(label, values);
  const matrix = (label: string, source: Matrix, bias: Float32Array | null = null): DeviceMatrix => ({
    buffer: upload(label, source.data),
    inputs4: pad4(source.rows) / 4,
    columns4: pad4(source.columns) / 4,
    bias: vector(`${label} bias`, bias),
  });
  const { numLayers } = weights.architecture;
  const total = numLayers + 1;
  const pieces = vocabularyPieces(weights.architecture, weights.dtype, pieceBytes);
  const embedding: DevicePieces[number][] = [];
  for (const columns of pieces) {
    embedding.push({ ...matrix('embedding', await weights.embedding(allocate, columns)), ...columns });
  }
  const lmHead: DevicePieces[number][] = [];
  for (const columns of weights.architecture.tieWordEmbeddings ? [] : pieces) {
    const head = await weights.lmHead(allocate, columns);
    lmHead.push({ ...matrix('lm head', head!), ...columns });
  }
  const finalNorm = upload('final norm', await weights.finalNorm());
  onProgress(1, total);
  const layers: DeviceLayer[] = [];
  for (let index = 0; index < numLayers; index++) {
    await nextTurn();
    gpu.assertAlive();
    const layer = await weights.layer(index, allocate);
    const name = (tensor: string) => `layer ${index} ${tensor}`;
    layers.push({
      inputNorm: upload(name('input norm'), layer.inputNorm),
      qkv: matrix(name('qkv'), layer.qkv, layer.qkvBias),
      headNorms:
        layer.qNorm && layer.kNorm
          ? upload(name('head norms'), Float32Array.from([...layer.qNorm, ...layer.kNorm]))
          : null,
      o: matrix(name('o'), layer.o, layer.oBias),
      attentionOutNorm: vector(name('attention out norm'), layer.attentionOutNorm),
      mlpNorm: upload(name('mlp norm'), layer.mlpNorm),
      gateUp: matrix(name('gate up'), layer.gateUp, layer.gateUpBias),
      down: matrix(name('down'), layer.down, layer.downBias),
      mlpOutNorm: vector(name('mlp out norm'), layer.mlpOutNorm),
    });
    onProgress(index + 2, total);
  }
  return {
    embedding,
    lmHead: lmHead.length > 0 ? lmHead : embedding,
    finalNorm,
    layers,
    bytes: sumOf(buffers, (buffer) => buffer.size),
    destroy: () => {
      for (const buffer of buffers) buffer.destroy();
    },
  };
}

/** Lets the event loop handle other work, such as pipelines that compile meanwhile. */
const nextTurn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

function mappedBuffer(gpu: GpuDevice, label: string, bytes: number): GPUBuffer {
  const size = wholeVec4s(bytes);
  return gpu.device.createBuffer({ label, size, usage: GPUBufferUsage.STORAGE, mappedAtCreation: true });
}

/** Zeros follow the values up to the buffer's size. */
function writtenBuffer(gpu: GpuDevice, values: Float32Array | Uint16Array): GPUBuffer {
  const bytes = bytesOf(values);
  const size = wholeVec4s(bytes.length);
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST;
  const buffer = gpu.device.createBuffer({ size, usage });
  const padded = size === bytes.length ? bytes : new Uint8Array(size);
  if (padded !== bytes) padded.set(bytes);
  gpu.device.queue.writeBuffer(buffer, 0, padded);
  return buffer;
}
