/**
 * Finds the tensors of a Hugging Face checkpoint, and checks their names and shapes against the architecture before any
 * weight is read. hf-weights.ts reads the weights.
 */
import { z } from 'zod';
import { ModelError } from '../../errors.ts';
import type { FileSource } from '../../platform/types.ts';
import { readArchitecture } from '../architecture/architecture.ts';
import { pathOf, readJson } from '../architecture/json-file.ts';
import { expectedTensors, ignoredTensor, textTensorName } from '../architecture/tensor-names.ts';
import type { Checkpoint } from './hf-weights.ts';
import { SafetensorsFile } from './safetensors.ts';
import type { StoredTensor } from './stored-tensor.ts';

const indexSchema = z.looseObject({ weight_map: z.record(z.string(), z.string()) });

/** Throws ModelError if a tensor is missing, unknown, of a shape other than the architecture's, or tied and different. */
export async function openCheckpoint(files: FileSource): Promise<Checkpoint> {
  const architecture = await readArchitecture(files);
  const located = await locateTensors(files);
  const tensors = new Map<string, StoredTensor>();
  for (const [name, shape] of expectedTensors(architecture)) {
    const tensor = located.get(name);
    if (!tensor) {
      throw new ModelError(
        `${files.location} has no tensor ${name}, which its config.json requires: copy the model's files again`,
      );
    }
    if (tensor.shape.join() !== shape.join()) {
      throw new ModelError(
        `${tensor.path}: tensor ${name} has shape [${tensor.shape.join(', ')}], wanted [${shape.join(', ')}] according to config.json`,
      );
    }
    tensors.set(name, tensor);
  }
  for (const [name, { path }] of located) {
    if (!tensors.has(name) && !ignoredTensor(name, architecture)) {
      throw new ModelError(
        `${path}: tensor ${name} has no place in the model that config.json describes: correct config.json`,
      );
    }
  }
  const head = located.get('lm_head.weight');
  if (architecture.tieWordEmbeddings && head)
    await checkTied(files, head, tensors.get('model.embed_tokens.weight')!);
  return { architecture, tensors };
}

/** Bytes of each tensor that are compared at once. */
const COMPARED_BYTES = 4 * 2 ** 20;

/** Versions of transformers differ in whether they use an LM head that is not the embedding of a tied model. */
async function checkTied(files: FileSource, head: StoredTensor, embedding: StoredTensor): Promise<void> {
  const { dtype, shape, byteLength } = head;
  let same = dtype === embedding.dtype && shape.join() === embedding.shape.join();
  for (let first = 0; same && first < byteLength; first += COMPARED_BYTES) {
    const count = Math.min(COMPARED_BYTES, byteLength - first);
    const [ours, theirs] = await Promise.all(
      [head, embedding].map(({ file, fileOffset }) => files.readBytes(file, fileOffset + first, count)),
    );
    for (let i = 0; same && i < count; i++) same = ours![i] === theirs![i];
  }
  if (same) return;
  throw new ModelError(
    `${head.path}: tensor ${head.name} differs from ${embedding.name}, but tie_word_embeddings is true: set it to false in config.json, or remove the tensor`,
  );
}

/** The text model's tensors, from model.safetensors or from the shards that model.safetensors.index.json lists. */
async function locateTensors(files: FileSource): Promise<ReadonlyMap<string, StoredTensor>> {
  const located = new Map<string, StoredTensor>();
  const add = (stored: string, tensor: StoredTensor) => {
    const name = textTensorName(stored);
    if (name !== null) located.set(name, tensor);
  };
  if ((await files.size('model.safetensors')) !== null) {
    const file = await SafetensorsFile.open(files, 'model.safetensors');
    for (const tensor of file.tensors.values()) add(tensor.name, tensor);
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
    add(name, file.tensor(name));
  }
  return located;
}
