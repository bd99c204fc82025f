/** What a model's weights take on a device, from its architecture alone: known before any is generated or read. */
import { AdapterError } from '../errors.ts';
import type { AdapterReport } from '../gpu/device.ts';
import { type Architecture, pad4, type WeightDtype } from './types.ts';

/** Bytes of all weights on the device, and of the largest in one buffer. */
export interface WeightSizes {
  total: number;
  largest: { name: string; bytes: number };
}

/** Matrices in `dtype`, rows and columns padded to 4; norms and biases in float32; each buffer a multiple of 16 bytes. */
export function weightSizes(a: Architecture, dtype: WeightDtype): WeightSizes {
  const element = dtype === 'f16' ? 2 : 4;
  const buffer = (bytes: number) => Math.max(16, (bytes + 15) & ~15);
  const matrix = (rows: number, columns: number) => buffer(element * pad4(rows) * pad4(columns));
  const vector = (length: number) => buffer(4 * length);
  const qWidth = a.numHeads * a.headDim;
  const qkvWidth = qWidth + 2 * a.numKvHeads * a.headDim;
  const inner = a.intermediateSize;
  const embedding = matrix(a.hiddenSize, a.vocabSize);
  const matrices = {
    embedding,
    qkv: matrix(a.hiddenSize, qkvWidth),
    o: matrix(qWidth, a.hiddenSize),
    'gate up': matrix(a.hiddenSize, 2 * inner),
    down: matrix(inner, a.hiddenSize),
  };
  let layer = matrices.qkv + matrices.o + matrices['gate up'] + matrices.down + 2 * vector(a.hiddenSize);
  if (a.qkNorm) layer += vector(2 * a.headDim);
  if (a.qkvBias) layer += vector(qkvWidth);
  if (a.oBias) layer += vector(a.hiddenSize);
  if (a.mlpBias) layer += vector(2 * inner) + vector(a.hiddenSize);
  const heads = a.tieWordEmbeddings ? 1 : 2;
  const [name, bytes] = Object.entries(matrices).reduce((most, one) => (one[1] > most[1] ? one : most));
  return {
    total: heads * embedding + vector(a.hiddenSize) + a.numLayers * layer,
    largest: { name, bytes },
  };
}

/** Throws AdapterError when the adapter has no room for the largest matrix. */
export function checkLargestWeight(
  architecture: Architecture,
  dtype: WeightDtype,
  { name, limits }: AdapterReport,
): void {
  const { largest } = weightSizes(architecture, dtype);
  for (const limit of ['maxStorageBufferBindingSize', 'maxBufferSize'] as const) {
    if (largest.bytes <= limits[limit]) continue;
    throw new AdapterError(
      `${architecture.name} does not fit ${name}: its weights '${largest.name}' have ${largest.bytes} bytes as ${dtype}, ` +
        `and ${limit} is ${limits[limit]}; none were loaded: use a smaller model, ` +
        `${dtype === 'f32' ? '--weight-dtype f16, ' : ''}or another adapter (--adapter)`,
    );
  }
}
