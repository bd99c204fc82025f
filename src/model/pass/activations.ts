/**
 * The buffers that hold the intermediate values, inputs and results of one piece of a step. Allocated once, at their
 * largest size.
 */
import { AdapterError } from '../../errors.ts';
import { mostBound, wholeVec4s } from '../../gpu/buffer-size.ts';
import type { GpuDevice } from '../../gpu/device.ts';
import { ropeOf } from '../architecture/layer-attention.ts';
import { type Architecture, type LayerAttention, pad4 } from '../types.ts';
import { matricesOf } from '../weights/matrices.ts';
import { ropeFrequencies } from './rope.ts';
import { SAMPLE_ROW_WORDS } from './sampling.ts';

export interface ActivationLimits {
  /** Token rows of a piece. */
  rows: number;
  /** Rows of a piece that get logits. */
  logitRows: number;
  /** KV cache groups. */
  groups: number;
  /** Entries in all block tables of a piece, by group. */
  tableEntries: number;
  /** Attention tiles of a piece. */
  tiles: number;
  /** Forbidden token ids of a piece. */
  forbidden: number;
  maxModelLen: number;
  /** Parts that split attention computes at once, over all query heads; 0: attention is never split. */
  attentionParts: number;
}

export type Activations = ReturnType<typeof createActivations>;

/** Throws AdapterError if the buffer is too large to bind. */
function checkBinding({ report, device }: GpuDevice, label: string, bytes: number): void {
  const limit = mostBound(device);
  if (bytes <= limit) return;
  throw new AdapterError(
    `${report.name} binds at most ${limit} bytes (maxStorageBufferBindingSize), but '${label}' needs ${bytes}: reduce ` +
      '--max-model-len, --max-num-batched-tokens or --max-num-seqs, or use another adapter (--adapter)',
  );
}

/** Activations are f32, [rows][width padded to 4]. Throws AdapterError if a buffer does not fit the adapter. */
export function createActivations(gpu: GpuDevice, architecture: Architecture, limits: ActivationLimits) {
  const { hiddenSize, numHeads, headDim, intermediateSize, vocabSize } = architecture;
  const matrices = matricesOf(architecture);
  const all: GPUBuffer[] = [];
  /** Buffers to zero at the start: kernels read a row's padding columns and never write them. */
  const empty: GPUBuffer[] = [];
  const create = (label: string, bytes: number, usage: GPUBufferUsageFlags = 0): GPUBuffer => {
    checkBinding(gpu, label, bytes);
    const buffer = gpu.device.createBuffer({
      label,
      size: wholeVec4s(bytes),
      usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | usage,
    });
    all.push(buffer);
    empty.push(buffer);
    return buffer;
  };
  const rows = (label: string, width: number) =>
    create(label, 4 * limits.rows * pad4(width), GPUBufferUsage.COPY_SRC);
  const input = (label: string, words: number) => create(label, 4 * words);
  const byGroup = (label: string, words: number) =>
    Array.from({ length: limits.groups }, (_, group) => input(`${label} of group ${group}`, words));
  const output = (label: string, words: number) => create(label, 4 * words, GPUBufferUsage.COPY_SRC);
  const turnsOf = (kind: LayerAttention['kind']) =>
    ropeTable(gpu, architecture, kind, limits.maxModelLen, all);
  const full = turnsOf('full');
  const activations = {
    x: rows('x', hiddenSize),
    normed: rows('normed', hiddenSize),
    qkv: rows('qkv', matrices.qkv.outputs),
    q: rows('q', numHeads * headDim),
    attended: rows('attended', numHeads * headDim),
    /** For each part: its sum, highest score and total weight. */
    parts: create('attention parts', 4 * limits.attentionParts * (headDim + 4)),
    gateUp: rows('gate up', matrices['gate up'].outputs),
    activated: rows('activated', intermediateSize),
    logitNormed: output('logit normed', limits.logitRows * pad4(hiddenSize)),
    logits: output('logits', limits.logitRows * pad4(vocabSize)),
    results: output('results', 4 * limits.logitRows),

    /** By KV cache group. */
    tokens: byGroup('tokens', 4 * limits.rows),
    tables: byGroup('block tables', limits.tableEntries),
    tiles: input('attention tiles', 4 * limits.tiles),
    logitRows: input('logit rows', limits.logitRows),
    sampleRows: input('sample rows', SAMPLE_ROW_WORDS * limits.logitRows),
    forbidden: input('forbidden tokens', limits.forbidden),
    /** Bound in place of an optional input that is not read: no bias, no norm. */
    none: create('none', 16),
    turns: { full, sliding: architecture.slidingRope ? turnsOf('sliding') : full },

    bytes: () => all.reduce((sum, buffer) => sum + buffer.size, 0),
    destroy: () => {
      for (const buffer of all) buffer.destroy();
    },
  };
  gpu.zero(...empty);
  return activations;
}

/** Rotations for layers of this kind, [position][cos, sin][headDim / 2], computed in float64 and stored as f32. */
function ropeTable(
  gpu: GpuDevice,
  architecture: Architecture,
  kind: LayerAttention['kind'],
  positions: number,
  all: GPUBuffer[],
): GPUBuffer {
  const frequencies = ropeFrequencies({ headDim: architecture.headDim, ...ropeOf(architecture, kind) });
  const half = frequencies.length;
  const label = `rope turns, ${kind}`;
  const size = 8 * half * positions;
  checkBinding(gpu, label, size);
  const buffer = gpu.device.createBuffer({
    label,
    size,
    usage: GPUBufferUsage.STORAGE,
    mappedAtCreation: true,
  });
  const table = new Float32Array(buffer.getMappedRange());
  for (let position = 0; position < positions; position++) {
    for (let i = 0; i < half; i++) {
      const angle = position * frequencies[i]!;
      table[2 * half * position + i] = Math.cos(angle);
      table[2 * half * position + half + i] = Math.sin(angle);
    }
  }
  buffer.unmap();
  all.push(buffer);
  return buffer;
}
