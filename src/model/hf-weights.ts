/**
 * Weights of a Hugging Face checkpoint in the layout that the kernels read: Linears transposed, q/k/v and gate/up side by
 * side, converted to the engine's dtype. Names and shapes of all tensors are checked before the first byte is read.
 */
import { z } from 'zod';
import { ModelError } from '../errors.ts';
import type { FileSource } from '../platform/types.ts';
import { floatToHalf, halfTable } from './half.ts';
import { pathOf, readJson } from './json-file.ts';
import { bfloatTable, SafetensorsFile, type TensorInfo } from './safetensors.ts';
import { expectedTensors, ignoredTensor } from './tensor-names.ts';
import {
  type Allocate,
  type Architecture,
  emptyMatrix,
  inMemory,
  type LayerWeights,
  type Matrix,
  type ModelWeights,
  pad4,
  type WeightDtype,
} from './types.ts';

/** Elements read and converted at once. */
const CHUNK_ELEMENTS = 1024 * 1024;
/** A tile while a matrix is transposed: rows of it, and columns, each row of them written in one go. */
const TILE_ROWS = 32;
const TILE = 128;
/** All ones: infinity or NaN. */
const HALF_EXPONENT = 0x7c00;
const LOWEST_EXPONENT = 0x0400;
/** The same of two halves in a word. */
const BOTH_EXPONENTS = 0x7c007c00;
const BOTH_LOWEST = 0x04000400;
const SIGNS = 0x80008000 | 0;

const indexSchema = z.looseObject({ weight_map: z.record(z.string(), z.string()) });

interface Located {
  file: SafetensorsFile;
  tensor: TensorInfo;
}

export class CheckpointWeights implements ModelWeights {
  readonly architecture: Architecture;
  readonly dtype: WeightDtype;
  #tensors: ReadonlyMap<string, Located>;

  private constructor(architecture: Architecture, dtype: WeightDtype, tensors: ReadonlyMap<string, Located>) {
    this.architecture = architecture;
    this.dtype = dtype;
    this.#tensors = tensors;
  }

  /** Throws ModelError when a tensor is missing, unknown or of another shape than the architecture wants. */
  static async open(
    files: FileSource,
    architecture: Architecture,
    dtype: WeightDtype,
  ): Promise<CheckpointWeights> {
    const tensors = await locateTensors(files);
    for (const [name, shape] of expectedTensors(architecture)) {
      const located = tensors.get(name);
      if (!located) {
        throw new ModelError(
          `${files.location} has no tensor ${name}, which its config.json asks for: copy the model's files again`,
        );
      }
      const found = located.tensor.shape;
      if (found.join() !== shape.join()) {
        throw new ModelError(
          `${located.file.path}: tensor ${name} has shape [${found.join(', ')}], wanted [${shape.join(', ')}] by config.json`,
        );
      }
    }
    const known = new Set(expectedTensors(architecture).map(([name]) => name));
    for (const [name, { file }] of tensors) {
      if (!known.has(name) && !ignoredTensor(name, architecture)) {
        throw new ModelError(
          `${file.path}: tensor ${name} has no place in the model that config.json describes: correct config.json`,
        );
      }
    }
    return new CheckpointWeights(architecture, dtype, tensors);
  }

  embedding(allocate: Allocate = inMemory): Promise<Matrix> {
    return this.#matrix(allocate, ['model.embed_tokens.weight']);
  }

  async lmHead(allocate: Allocate = inMemory): Promise<Matrix | null> {
    return this.architecture.tieWordEmbeddings ? null : this.#matrix(allocate, ['lm_head.weight']);
  }

  finalNorm(): Promise<Float32Array> {
    return this.#vector(['model.norm.weight']);
  }

  async layer(index: number, allocate: Allocate = inMemory): Promise<LayerWeights> {
    const { qkvBias, oBias, mlpBias, qkNorm } = this.architecture;
    const at = (part: string) => `model.layers.${index}.${part}`;
    const qkv = ['q', 'k', 'v'].map((p) => at(`self_attn.${p}_proj`));
    const gateUp = ['gate', 'up'].map((p) => at(`mlp.${p}_proj`));
    const weights = (names: readonly string[]) =>
      this.#matrix(
        allocate,
        names.map((name) => `${name}.weight`),
      );
    const biases = (names: readonly string[]) => this.#vector(names.map((name) => `${name}.bias`));
    return {
      inputNorm: await this.#vector([at('input_layernorm.weight')]),
      qkv: await weights(qkv),
      qkvBias: qkvBias ? await biases(qkv) : null,
      qNorm: qkNorm ? await this.#vector([at('self_attn.q_norm.weight')]) : null,
      kNorm: qkNorm ? await this.#vector([at('self_attn.k_norm.weight')]) : null,
      o: await weights([at('self_attn.o_proj')]),
      oBias: oBias ? await biases([at('self_attn.o_proj')]) : null,
      postAttentionNorm: await this.#vector([at('post_attention_layernorm.weight')]),
      gateUp: await weights(gateUp),
      gateUpBias: mlpBias ? await biases(gateUp) : null,
      down: await weights([at('mlp.down_proj')]),
      downBias: mlpBias ? await biases([at('mlp.down_proj')]) : null,
    };
  }

  /** One-dimensional tensors, one after the other. */
  async #vector(names: readonly string[]): Promise<Float32Array> {
    const parts: number[] = [];
    for (const name of names) {
      const { file, tensor } = this.#tensors.get(name)!;
      const data = await file.read(tensor, 0, tensor.shape[0]!);
      parts.push(...(convert(data, tensor, 'f32', file.path) as Float32Array));
    }
    return Float32Array.from(parts);
  }

  /** [outputs][inputs] tensors, transposed and side by side. */
  async #matrix(allocate: Allocate, names: readonly string[]): Promise<Matrix> {
    const parts = names.map((name) => this.#tensors.get(name)!);
    const rows = parts[0]!.tensor.shape[1]!;
    const columns = parts.reduce((sum, { tensor }) => sum + tensor.shape[0]!, 0);
    const matrix = emptyMatrix(allocate, names.join(' and '), this.dtype, rows, columns);
    let column = 0;
    for (const { file, tensor } of parts) {
      const outputs = tensor.shape[0]!;
      const step = Math.max(TILE, Math.floor(CHUNK_ELEMENTS / rows / TILE) * TILE);
      const read = (first: number) => file.read(tensor, first * rows, Math.min(step, outputs - first) * rows);
      let ahead = read(0);
      for (let first = 0; first < outputs; first += step) {
        const count = Math.min(step, outputs - first);
        const data = await ahead;
        if (first + step < outputs) {
          // Read while this one is converted; a failure is thrown when it is awaited.
          ahead = read(first + step);
          ahead.catch(() => {});
        }
        const converted = convert(data, tensor, this.dtype, file.path);
        if (matrix.dtype === 'f16' && (rows | column | first | count) % 2 === 0) {
          transposePairsInto(matrix, column + first, converted as Uint16Array, count);
        } else transposeInto(matrix, column + first, converted, count);
      }
      column += outputs;
    }
    return matrix;
  }
}

/** All tensors of model.safetensors, or of the shards that model.safetensors.index.json names. */
async function locateTensors(files: FileSource): Promise<ReadonlyMap<string, Located>> {
  const located = new Map<string, Located>();
  if ((await files.size('model.safetensors')) !== null) {
    const file = await SafetensorsFile.open(files, 'model.safetensors');
    for (const tensor of file.tensors.values()) located.set(tensor.name, { file, tensor });
    return located;
  }
  const indexName = 'model.safetensors.index.json';
  const index = await readJson(files, indexName, indexSchema);
  if (!index) {
    throw new ModelError(
      `${files.location} has neither model.safetensors nor ${indexName}: wanted safetensors weights; convert other formats first`,
    );
  }
  const shards = new Map<string, SafetensorsFile>();
  for (const [name, shard] of Object.entries(index.weight_map)) {
    if (!/^[\w.-]+$/.test(shard)) {
      throw new ModelError(
        `${pathOf(files, indexName)} names the shard '${shard}': wanted a plain file name`,
      );
    }
    let file = shards.get(shard);
    if (!file) {
      file = await SafetensorsFile.open(files, shard);
      shards.set(shard, file);
    }
    located.set(name, { file, tensor: file.tensor(name) });
  }
  return located;
}

/** Stored elements in the wanted dtype. Throws ModelError for a value that is not finite there. */
function convert(
  data: Uint16Array | Float32Array,
  tensor: TensorInfo,
  dtype: WeightDtype,
  path: string,
): Uint16Array | Float32Array {
  const values = tensor.dtype === 'F16' ? halfTable() : tensor.dtype === 'BF16' ? bfloatTable() : null;
  const converted = dtype === 'f16' ? toHalves(data, tensor.dtype) : toFloats(data, values);
  const bad = firstNotFinite(converted);
  if (bad === null) return converted;
  throw badValue(values ? values[data[bad]!]! : data[bad]!, tensor, dtype, path);
}

function toHalves(data: Uint16Array | Float32Array, stored: string): Uint16Array {
  if (stored === 'F16') return data as Uint16Array;
  const out = new Uint16Array(data.length);
  if (stored === 'BF16') {
    bfloatHalves ??= Uint16Array.from(bfloatTable(), floatToHalf);
    const halves = bfloatHalves;
    const even = data.length & ~1;
    const from = new Uint32Array(data.buffer, data.byteOffset, even / 2);
    const to = new Uint32Array(out.buffer, 0, even / 2);
    for (let i = 0; i < to.length; i++) {
      const pair = from[i]!;
      to[i] = halves[pair & 0xffff]! | (halves[pair >>> 16]! << 16);
    }
    if (even < data.length) out[even] = halves[data[even]!]!;
  } else {
    for (let i = 0; i < out.length; i++) out[i] = floatToHalf(data[i]!);
  }
  return out;
}

/** The half of each bfloat16 pattern. */
let bfloatHalves: Uint16Array | null = null;

function toFloats(data: Uint16Array | Float32Array, values: Float32Array | null): Float32Array {
  if (values === null) return data as Float32Array;
  const out = new Float32Array(data.length);
  for (let i = 0; i < out.length; i++) out[i] = values[data[i]!]!;
  return out;
}

function firstNotFinite(data: Uint16Array | Float32Array): number | null {
  if (data instanceof Float32Array) {
    for (let i = 0; i < data.length; i++) if (!Number.isFinite(data[i])) return i;
  } else {
    if (allFinite(data)) return null;
    return data.findIndex((bits) => (bits & HALF_EXPONENT) === HALF_EXPONENT);
  }
  return null;
}

/** Whether no half is infinity or NaN; two at once. */
function allFinite(data: Uint16Array): boolean {
  const even = data.length & ~1;
  const pairs = new Uint32Array(data.buffer, data.byteOffset, even / 2);
  let carries = even < data.length ? (data[even]! & HALF_EXPONENT) + LOWEST_EXPONENT : 0;
  // An exponent of all ones carries into the sign's place.
  for (let i = 0; i < pairs.length; i++) carries |= (pairs[i]! & BOTH_EXPONENTS) + BOTH_LOWEST;
  return (carries & SIGNS) === 0;
}

function badValue(value: number, tensor: TensorInfo, dtype: WeightDtype, path: string): ModelError {
  return Number.isFinite(value)
    ? new ModelError(
        `${path}: tensor ${tensor.name} has the value ${value}, beyond what ${dtype} holds (65,504): load the model with f32 weights (--weight-dtype f32)`,
      )
    : new ModelError(
        `${path}: tensor ${tensor.name} has the value ${value}: wanted finite numbers; copy the file again`,
      );
}

/** `source` is [count][matrix.rows]: each of its rows becomes a column, the first one `column`. */
function transposeInto(
  matrix: Matrix,
  column: number,
  source: Uint16Array | Float32Array,
  count: number,
): void {
  const { rows, data } = matrix;
  const stride = pad4(matrix.columns);
  for (let tile = 0; tile < count; tile += TILE) {
    const end = Math.min(tile + TILE, count);
    for (let band = 0; band < rows; band += TILE_ROWS) {
      const bandEnd = Math.min(band + TILE_ROWS, rows);
      for (let row = band; row < bandEnd; row++) {
        const at = row * stride + column;
        let from = tile * rows + row;
        for (let n = tile; n < end; n++) {
          data[at + n] = source[from]!;
          from += rows;
        }
      }
    }
  }
}

/** The same for halves with even rows, column and count, four at once: two of two rows are two of two columns. */
function transposePairsInto(
  { rows, columns, data }: Matrix,
  column: number,
  source: Uint16Array,
  count: number,
): void {
  const pairs = new Uint32Array(source.buffer, source.byteOffset, source.length / 2);
  const out = new Uint32Array(data.buffer, data.byteOffset, data.length / 2);
  const stride = pad4(columns) / 2;
  const length = rows / 2;
  for (let tile = 0; tile < count; tile += TILE) {
    const end = Math.min(tile + TILE, count);
    for (let band = 0; band < length; band += TILE_ROWS / 2) {
      const bandEnd = Math.min(band + TILE_ROWS / 2, length);
      for (let row = band; row < bandEnd; row++) {
        let at = 2 * row * stride + (column + tile) / 2;
        let from = tile * length + row;
        for (let n = tile; n < end; n += 2) {
          const even = pairs[from]!;
          const odd = pairs[from + length]!;
          out[at] = (even & 0xffff) | (odd << 16);
          out[at + stride] = (even >>> 16) | (odd & 0xffff0000);
          from += 2 * length;
          at++;
        }
      }
    }
  }
}
