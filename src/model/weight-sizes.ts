/** What a model's weights take on a device, from its architecture alone: known before any is generated or read. */
import { AdapterError } from '../errors.ts';
import type { AdapterReport } from '../gpu/device.ts';
import { type MatrixShape, matricesOf } from './matrices.ts';
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
  const vector = (length: number) => buffer(4 * length);
  const bytesOf = ({ inputs, outputs }: MatrixShape) => buffer(element * pad4(inputs) * pad4(outputs));
  const { 'lm head': head, ...ofLayer } = matricesOf(a);
  // Shaped as the LM head is, whether tied or not.
  const embedding = bytesOf(head);
  let largest = { name: 'embedding', bytes: embedding };
  let layer = 2 * vector(a.hiddenSize) + (a.qkNorm ? vector(2 * a.headDim) : 0);
  for (const [name, shape] of Object.entries(ofLayer)) {
    const bytes = bytesOf(shape);
    layer += bytes + (shape.bias ? vector(shape.outputs) : 0);
    if (bytes > largest.bytes) largest = { name, bytes };
  }
  const heads = a.tieWordEmbeddings ? 1 : 2;
  return { total: heads * embedding + vector(a.hiddenSize) + a.numLayers * layer, largest };
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
