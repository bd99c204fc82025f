/**
 * Weights of a Hugging Face checkpoint in the layout that the kernels read: Linears transposed, q/k/v and gate/up side by
 * side, converted to the engine's dtype. Names and shapes of all tensors are checked before the first byte is read.
 */
import { z } from 'zod';
import { ModelError } from '../errors.ts';
import type { FileSource } from '../platform/types.ts';
import { pathOf, readJson } from './json-file.ts';
import { PANEL_COLUMNS } from './panels.ts';
import { SafetensorsFile, type TensorInfo } from './safetensors.ts';
import { convert, transposeInto } from './tensor-layout.ts';
import { expectedTensors, ignoredTensor, textTensorName } from './tensor-names.ts';
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
} from './types.ts';

/** Elements read and converted at once. */
const CHUNK_ELEMENTS = 1024 * 1024;
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

  /** [outputs][inputs] tensors, transposed and side by side; of a single one perhaps some outputs only. */
  async #matrix(allocate: Allocate, names: readonly string[], some?: Columns): Promise<Matrix> {
    const parts = names.map((name) => this.#tensors.get(name)!);
    const rows = parts[0]!.tensor.shape[1]!;
    const columns = some?.count ?? parts.reduce((sum, { tensor }) => sum + tensor.shape[0]!, 0);
    const matrix = emptyMatrix(allocate, names.join(' and '), this.dtype, rows, columns);
    let column = 0;
    for (const { file, tensor } of parts) {
      const outputs = some?.count ?? tensor.shape[0]!;
      const step = Math.max(1, Math.floor(CHUNK_ELEMENTS / rows / PANEL_COLUMNS)) * PANEL_COLUMNS;
      const read = (first: number) =>
        file.read(tensor, ((some?.first ?? 0) + first) * rows, Math.min(step, outputs - first) * rows);
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
        transposeInto(matrix, column + first, converted, count);
      }
      column += outputs;
    }
    return matrix;
  }
}

/** The text model's tensors of model.safetensors, or of the shards that model.safetensors.index.json names. */
async function locateTensors(files: FileSource): Promise<ReadonlyMap<string, Located>> {
  const located = new Map<string, Located>();
  const add = (stored: string, file: SafetensorsFile, tensor: TensorInfo) => {
    const name = textTensorName(stored);
    if (name !== null) located.set(name, { file, tensor });
  };
  if ((await files.size('model.safetensors')) !== null) {
    const file = await SafetensorsFile.open(files, 'model.safetensors');
    for (const tensor of file.tensors.values()) add(tensor.name, file, tensor);
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
    add(name, file, file.tensor(name));
  }
  return located;
}
