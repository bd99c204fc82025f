/**
 * Reads weights of a Hugging Face checkpoint in the layout of the kernels: Linears transposed, q/k/v and gate/up side
 * by side, converted to the engine's dtype. checkpoint.ts has located and checked the tensors before.
 */
import type { FileSource } from '../../platform/types.ts';
import { sumOf } from '../../sum.ts';
import {
  type Allocate,
  type Architecture,
  type Columns,
  emptyMatrix,
  inMemory,
  type LayerWeights,
  type Matrix,
  type ModelWeights,
  type WeightDtype,
} from '../types.ts';
import { PANEL_COLUMNS } from './panels.ts';
import { readElements, type StoredTensor } from './stored-tensor.ts';
import { convert, transposeInto } from './tensor-layout.ts';

/** Elements read and converted at once. */
const CHUNK_ELEMENTS = 1024 * 1024;

/** What an engine needs to know about a checkpoint's files. Cloned to the engine's thread. */
export interface Checkpoint {
  architecture: Architecture;
  /** The architecture's tensors, by their name in a text model, with shapes already checked. */
  tensors: ReadonlyMap<string, StoredTensor>;
}

export class CheckpointWeights implements ModelWeights {
  readonly architecture: Architecture;
  readonly dtype: WeightDtype;
  readonly #files: FileSource;
  readonly #tensors: ReadonlyMap<string, StoredTensor>;

  constructor(files: FileSource, { architecture, tensors }: Checkpoint, dtype: WeightDtype) {
    this.architecture = architecture;
    this.dtype = dtype;
    this.#files = files;
    this.#tensors = tensors;
  }

  embedding(allocate: Allocate = inMemory, columns?: Columns): Promise<Matrix> {
    return this.#matrix(allocate, ['model.embed_tokens.weight'], columns);
  }

  async lmHead(allocate: Allocate = inMemory, columns?: Columns): Promise<Matrix | null> {
    return this.architecture.tieWordEmbeddings ? null : this.#matrix(allocate, ['lm_head.weight'], columns);
  }

  finalNorm(): Promise<Float32Array> {
    return this.#norm('model.norm.weight');
  }

  async layer(index: number, allocate: Allocate = inMemory): Promise<LayerWeights> {
    const { qkvBias, oBias, mlpBias, qkNorm, outputNorms } = this.architecture;
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
      inputNorm: await this.#norm(at('input_layernorm.weight')),
      qkv: await weights(qkv),
      qkvBias: qkvBias ? await biases(qkv) : null,
      qNorm: qkNorm ? await this.#norm(at('self_attn.q_norm.weight')) : null,
      kNorm: qkNorm ? await this.#norm(at('self_attn.k_norm.weight')) : null,
      o: await weights([at('self_attn.o_proj')]),
      oBias: oBias ? await biases([at('self_attn.o_proj')]) : null,
      attentionOutNorm: outputNorms ? await this.#norm(at('post_attention_layernorm.weight')) : null,
      mlpNorm: await this.#norm(
        at(outputNorms ? 'pre_feedforward_layernorm.weight' : 'post_attention_layernorm.weight'),
      ),
      gateUp: await weights(gateUp),
      gateUpBias: mlpBias ? await biases(gateUp) : null,
      down: await weights([at('mlp.down_proj')]),
      downBias: mlpBias ? await biases([at('mlp.down_proj')]) : null,
      mlpOutNorm: outputNorms ? await this.#norm(at('post_feedforward_layernorm.weight')) : null,
    };
  }

  async #norm(name: string): Promise<Float32Array> {
    const weight = await this.#vector([name]);
    return this.architecture.zeroCenteredNorms ? weight.map((value) => 1 + value) : weight;
  }

  /** One-dimensional tensors, concatenated. */
  async #vector(names: readonly string[]): Promise<Float32Array> {
    const parts: number[] = [];
    for (const name of names) {
      const tensor = this.#tensors.get(name)!;
      const data = await readElements(this.#files, tensor, 0, tensor.shape[0]!);
      parts.push(...(convert(data, tensor, 'f32') as Float32Array));
    }
    return Float32Array.from(parts);
  }

  /** [outputs][inputs] tensors, transposed and placed side by side. `some`: only these outputs of a single tensor. */
  async #matrix(allocate: Allocate, names: readonly string[], some?: Columns): Promise<Matrix> {
    const parts = names.map((name) => this.#tensors.get(name)!);
    const rows = parts[0]!.shape[1]!;
    const columns = some?.count ?? sumOf(parts, ({ shape }) => shape[0]!);
    const matrix = emptyMatrix(allocate, names.join(' and '), this.dtype, rows, columns);
    let column = 0;
    for (const tensor of parts) {
      const outputs = some?.count ?? tensor.shape[0]!;
      const step = Math.max(1, Math.floor(CHUNK_ELEMENTS / rows / PANEL_COLUMNS)) * PANEL_COLUMNS;
      const read = (first: number) => {
        const count = Math.min(step, outputs - first) * rows;
        return readElements(this.#files, tensor, ((some?.first ?? 0) + first) * rows, count);
      };
      let ahead = read(0);
      for (let first = 0; first < outputs; first += step) {
        const count = Math.min(step, outputs - first);
        const data = await ahead;
        if (first + step < outputs) {
          // Read the next chunk while this one is converted. A failure is thrown when `ahead` is awaited.
          ahead = read(first + step);
          ahead.catch(() => {});
        }
        const converted = convert(data, tensor, this.dtype);
        transposeInto(matrix, column + first, converted, count);
      }
      column += outputs;
    }
    return matrix;
  }
}
