/** Sizes of a model's weights on a device, from its architecture alone, before any weight is generated or read. */
import { AdapterError } from '../../errors.ts';
import type { AdapterReport } from '../../gpu/adapter-report.ts';
import { wholeVec4s } from '../../gpu/buffer-size.ts';
import { sum } from '../../sum.ts';
import { type Architecture, type Columns, pad4, type WeightDtype } from '../types.ts';
import { type MatrixShape, matricesOf } from './matrices.ts';
import { PANEL_COLUMNS } from './panels.ts';

/** Bytes of all weights on the device, and of the largest single buffer. */
export interface WeightSizes {
  total: number;
  largest: { name: string; bytes: number };
}

/**
 * Most bytes of a piece of the embedding or the LM head: the binding size that every WebGPU device supports
 * (maxStorageBufferBindingSize). It is the same on all devices, so a model is laid out alike on all of them.
 */
export const PIECE_BYTES = 2 ** 27;

const elementBytes = (dtype: WeightDtype): number => (dtype === 'f16' ? 2 : 4);

/**
 * The columns of each piece of the embedding, [hidden][vocab], and of the LM head: one piece if it fits, else whole
 * panels each.
 */
export function vocabularyPieces(
  { hiddenSize, vocabSize }: Architecture,
  dtype: WeightDtype,
  pieceBytes = PIECE_BYTES,
): Columns[] {
  const columnBytes = elementBytes(dtype) * pad4(hiddenSize);
  if (columnBytes * pad4(vocabSize) <= pieceBytes) return [{ first: 0, count: vocabSize }];
  const fit = Math.max(1, Math.floor(pieceBytes / columnBytes / PANEL_COLUMNS)) * PANEL_COLUMNS;
  const pieces = Math.ceil(vocabSize / fit);
  const each = Math.ceil(vocabSize / pieces / PANEL_COLUMNS) * PANEL_COLUMNS;
  return Array.from({ length: Math.ceil(vocabSize / each) }, (_, i) => ({
    first: i * each,
    count: Math.min(each, vocabSize - i * each),
  }));
}

/**
 * Matrices in `dtype` with rows and columns padded to 4, norms and biases in float32. Each buffer is a multiple of 16
 * bytes.
 */
export function weightSizes(a: Architecture, dtype: WeightDtype): WeightSizes {
  const vector = (length: number) => wholeVec4s(4 * length);
  const bytesOf = ({ inputs, outputs }: MatrixShape) =>
    wholeVec4s(elementBytes(dtype) * pad4(inputs) * pad4(outputs));
  const { 'lm head': head, ...ofLayer } = matricesOf(a);
  // The embedding has the LM head's shape, tied or not.
  const pieces = vocabularyPieces(a, dtype).map(({ count }) => bytesOf({ ...head, outputs: count }));
  let largest = { name: 'embedding', bytes: pieces[0]! };
  let layer = (a.outputNorms ? 4 : 2) * vector(a.hiddenSize) + (a.qkNorm ? vector(2 * a.headDim) : 0);
  for (const [name, shape] of Object.entries(ofLayer)) {
    const bytes = bytesOf(shape);
    layer += bytes + (shape.bias ? vector(shape.outputs) : 0);
    if (bytes > largest.bytes) largest = { name, bytes };
  }
  const heads = a.tieWordEmbeddings ? 1 : 2;
  const embedding = sum(pieces);
  return { total: heads * embedding + vector(a.hiddenSize) + a.numLayers * layer, largest };
}

/** Dispatches of a layer when fused (four matrices and attention), and of everything outside the layers. */
const LAYER_DISPATCHES = 5;
const OTHER_DISPATCHES = 4;

/** Average bytes of weights that one dispatch of a decode step reads. */
export function weightBytesADispatch(a: Architecture, dtype: WeightDtype): number {
  return weightSizes(a, dtype).total / (LAYER_DISPATCHES * a.numLayers + OTHER_DISPATCHES);
}

/** Throws AdapterError if the adapter cannot hold or bind the largest matrix. */
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
        `but ${limit} is ${limits[limit]}; none were loaded: use a smaller model, ` +
        `${dtype === 'f32' ? '--weight-dtype f16, ' : ''}or another adapter (--adapter)`,
    );
  }
}
