/**
 * Reads the safetensors format: 8 bytes of header length (little-endian), a JSON header, then the tensors' bytes.
 * Strict: a file whose header does not account for exactly its bytes is rejected. Tensors are read on demand.
 */
import { z } from 'zod';
import { ModelError } from '../../errors.ts';
import type { FileSource } from '../../platform/types.ts';
import { parseJson, pathOf } from '../architecture/json-file.ts';
import { readFloats, type StoredTensor } from './stored-tensor.ts';

/** The limit of the reference implementation. */
const MAX_HEADER_BYTES = 100_000_000;

const DTYPES = {
  8: ['F64', 'I64', 'U64'],
  4: ['F32', 'I32', 'U32'],
  2: ['F16', 'BF16', 'I16', 'U16'],
  1: ['I8', 'U8', 'BOOL', 'F8_E4M3', 'F8_E5M2'],
};
const bytesPerElement = new Map(
  Object.entries(DTYPES).flatMap(([bytes, names]) => names.map((name) => [name, Number(bytes)])),
);

const offset = z.int().nonnegative();
const entrySchema = z.strictObject({
  dtype: z.string(),
  shape: z.array(z.int().nonnegative()),
  data_offsets: z.tuple([offset, offset]),
});
const headerSchema = z
  .looseObject({ __metadata__: z.record(z.string(), z.string()).optional() })
  .transform(({ __metadata__: _, ...entries }) => entries)
  .pipe(z.record(z.string(), entrySchema));

export class SafetensorsFile {
  /** For messages. */
  readonly path: string;
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  #files: FileSource;

  private constructor(files: FileSource, name: string, tensors: ReadonlyMap<string, StoredTensor>) {
    this.path = pathOf(files, name);
    this.tensors = tensors;
    this.#files = files;
  }

  /** Throws ModelError if the file is missing, truncated or inconsistent. */
  static async open(files: FileSource, name: string): Promise<SafetensorsFile> {
    const path = pathOf(files, name);
    const size = await files.size(name);
    if (size === null) throw new ModelError(`${path} does not exist: copy the model's files again`);
    if (size < 8)
      throw new ModelError(`${path} has ${size} bytes: wanted a safetensors file, which has at least 8`);
    const start = await files.readBytes(name, 0, 8);
    const headerBytes = Number(new DataView(start.buffer, start.byteOffset, 8).getBigUint64(0, true));
    if (headerBytes > MAX_HEADER_BYTES || headerBytes > size - 8) {
      throw new ModelError(
        `${path} announces a header of ${headerBytes} bytes but has ${size} bytes: it is truncated or not a safetensors file; copy it again`,
      );
    }
    const text = new TextDecoder().decode(await files.readBytes(name, 8, headerBytes));
    const header = parseJson(text, `the header of ${path}`, headerSchema);
    const dataStart = 8 + headerBytes;
    const tensors = Object.entries(header).map(([tensor, { dtype, shape, data_offsets }]) => {
      const [begin, end] = data_offsets;
      const width = bytesPerElement.get(dtype);
      if (!width) {
        throw new ModelError(
          `${path}: tensor ${tensor} has the unknown dtype ${dtype}: wanted F32, F16 or BF16; convert the model`,
        );
      }
      const wanted = shape.reduce((product, n) => product * n, width);
      if (end - begin !== wanted) {
        throw new ModelError(
          `${path}: tensor ${tensor} of ${dtype} [${shape.join(', ')}] has ${end - begin} bytes, wanted ${wanted}: copy the file again`,
        );
      }
      return {
        name: tensor,
        dtype,
        shape,
        file: name,
        path,
        fileOffset: dataStart + begin,
        byteLength: wanted,
      };
    });
    checkCoverage(tensors, dataStart, size, path);
    return new SafetensorsFile(files, name, new Map(tensors.map((tensor) => [tensor.name, tensor])));
  }

  /** Throws ModelError if there is no such tensor. */
  tensor(name: string): StoredTensor {
    const tensor = this.tensors.get(name);
    if (!tensor)
      throw new ModelError(`${this.path} has no tensor ${name}: the model's files do not belong together`);
    return tensor;
  }

  /** A whole tensor as float32, converted from its stored dtype. */
  async readFloats(name: string): Promise<Float32Array> {
    return readFloats(this.#files, this.tensor(name));
  }
}

/** The format requires tensors to fill the rest of the file without gaps or overlaps. */
function checkCoverage(
  tensors: readonly StoredTensor[],
  dataStart: number,
  size: number,
  path: string,
): void {
  let end = dataStart;
  for (const tensor of tensors.toSorted(
    (a, b) => a.fileOffset - b.fileOffset || a.byteLength - b.byteLength,
  )) {
    if (tensor.fileOffset !== end) {
      throw new ModelError(
        `${path}: tensor ${tensor.name} begins at byte ${tensor.fileOffset}, wanted ${end}: tensors overlap or leave a gap; copy the file again`,
      );
    }
    end += tensor.byteLength;
  }
  if (end !== size) {
    throw new ModelError(
      `${path} has ${size} bytes, wanted ${end} according to its header: it is truncated or has extra bytes; copy it again`,
    );
  }
}
