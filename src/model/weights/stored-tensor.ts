/**
 * A tensor in a safetensors file, and reading its elements. Plain data: one thread finds and checks tensors, others
 * read them. safetensors.ts reads the file's header.
 */
import { ModelError } from '../../errors.ts';
import type { FileSource } from '../../platform/types.ts';
import { halfTable } from './half.ts';

export interface StoredTensor {
  name: string;
  dtype: string;
  shape: readonly number[];
  /** File name in the model's directory. */
  file: string;
  /** Full path of that file, for messages. */
  path: string;
  /** Byte offset of the tensor's data in the file. */
  fileOffset: number;
  byteLength: number;
}

/**
 * Elements [first, first + count) of a tensor: bit patterns for F16 and BF16, numbers for F32. Throws ModelError for
 * other dtypes.
 */
export async function readElements(
  files: FileSource,
  { name, dtype, file, path, fileOffset }: StoredTensor,
  first: number,
  count: number,
): Promise<Uint16Array | Float32Array> {
  if (dtype !== 'F32' && dtype !== 'F16' && dtype !== 'BF16') {
    throw new ModelError(
      `${path}: tensor ${name} has dtype ${dtype}: wanted F32, F16 or BF16; convert the model`,
    );
  }
  const width = dtype === 'F32' ? 4 : 2;
  const bytes = await files.readBytes(file, fileOffset + first * width, count * width);
  // Halves need this alignment too: they are processed in pairs.
  const aligned = bytes.byteOffset % 4 === 0 ? bytes : bytes.slice();
  return width === 4
    ? new Float32Array(aligned.buffer, aligned.byteOffset, count)
    : new Uint16Array(aligned.buffer, aligned.byteOffset, count);
}

/** A whole tensor as float32, converted from its stored dtype. */
export async function readFloats(files: FileSource, tensor: StoredTensor): Promise<Float32Array> {
  const elements = tensor.shape.reduce((product, n) => product * n, 1);
  const data = await readElements(files, tensor, 0, elements);
  if (data instanceof Float32Array) return data;
  const widen = tensor.dtype === 'F16' ? halfTable() : bfloatTable();
  return Float32Array.from(data, (bits) => widen[bits]!);
}

/** The value of each bfloat16 pattern. */
let bfloats: Float32Array | null = null;
export function bfloatTable(): Float32Array {
  bfloats ??= new Float32Array(Uint32Array.from({ length: 65536 }, (_, bits) => bits << 16).buffer);
  return bfloats;
}
