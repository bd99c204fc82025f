/** A model by name: a preset, whose weights come from a seed and whose tokenizer is generated, or a directory's files. */
import { ModelError } from '../errors.ts';
import type { FileSource } from '../platform/types.ts';
import { readArchitecture } from './architecture.ts';
import { ChatTemplate } from './chat.ts';
import { CheckpointWeights } from './hf-weights.ts';
import { presetTokenizerFiles } from './preset-tokenizer.ts';
import { isPreset, presetArchitecture, unknownPreset } from './presets.ts';
import { SeededWeights } from './seeded-weights.ts';
import { Tokenizer } from './tokenizer.ts';
import type { Architecture, ModelWeights, WeightDtype } from './types.ts';

export interface WeightOptions {
  /** A preset's name; with files, what the user called the model. */
  name: string;
  /** null for a preset. */
  files: FileSource | null;
  dtype: WeightDtype;
  /** Of generated weights; of no effect on a checkpoint. */
  seed: number;
}

/** What turns text into prompts: all that a thread without an engine needs of a model. */
export interface TextModel {
  architecture: Architecture;
  tokenizer: Tokenizer;
  chat: ChatTemplate;
}

/** A preset's name wins over files of the same name; a directory of that name can be given as ./name. */
export async function loadArchitecture(name: string, files: FileSource | null): Promise<Architecture> {
  if (isPreset(name)) return presetArchitecture(name);
  if (!files) throw unknownPreset(name);
  return readArchitecture(files);
}

export async function loadWeights({ name, files, dtype, seed }: WeightOptions): Promise<ModelWeights> {
  const architecture = await loadArchitecture(name, files);
  if (isPreset(name)) return new SeededWeights(architecture, seed, dtype);
  return CheckpointWeights.open(files!, architecture, dtype);
}

export async function loadTokenizer(name: string, files: FileSource | null): Promise<TextModel> {
  const architecture = await loadArchitecture(name, files);
  const source = isPreset(name) ? memorySource(name, presetTokenizerFiles(name)) : files!;
  const tokenizer = await Tokenizer.load(source, architecture.vocabSize);
  const chat = await ChatTemplate.load(source, tokenizer, architecture.eosTokenIds);
  return { architecture, tokenizer, chat };
}

export async function loadModel(
  options: WeightOptions,
): Promise<{ weights: ModelWeights; tokenizer: Tokenizer; chat: ChatTemplate }> {
  const weights = await loadWeights(options);
  const { tokenizer, chat } = await loadTokenizer(options.name, options.files);
  return { weights, tokenizer, chat };
}

/** Files that exist only in memory. */
export function memorySource(
  location: string,
  contents: Readonly<Record<string, string | Uint8Array>>,
): FileSource {
  const find = (name: string) => (Object.hasOwn(contents, name) ? contents[name]! : null);
  const bytesOf = (content: string | Uint8Array) =>
    typeof content === 'string' ? new TextEncoder().encode(content) : content;
  return {
    location,
    async readText(name) {
      const content = find(name);
      return content === null || typeof content === 'string' ? content : new TextDecoder().decode(content);
    },
    async size(name) {
      const content = find(name);
      return content === null ? null : bytesOf(content).byteLength;
    },
    async readBytes(name, offset, length) {
      const bytes = bytesOf(find(name) ?? '').slice(offset, offset + length);
      if (bytes.byteLength === length) return bytes;
      throw new ModelError(
        `${location}/${name} ends before byte ${offset + length}: it is truncated or does not exist`,
      );
    },
  };
}
