/** Loads a model by name: a preset, with weights from a seed and a generated tokeniser, or files of a directory. */
import { ModelError } from '../errors.ts';
import type { FileSource } from '../platform/types.ts';
import { isPreset, presetArchitecture, unknownPreset } from './architecture/presets.ts';
import type { ChatTemplate } from './text/chat.ts';
import { presetTokenizerFiles } from './text/preset-tokenizer.ts';
import type { Tokenizer } from './text/tokenizer.ts';
import type { Architecture, ModelWeights } from './types.ts';
import type { Checkpoint } from './weights/hf-weights.ts';
import { type WeightSource, weightsOf } from './weights/load-weights.ts';

/**
 * A preset takes precedence over files of the same name. A directory of that name can be given as ./name. Throws
 * ModelError.
 */
export async function loadArchitecture(name: string, files: FileSource | null): Promise<Architecture> {
  if (isPreset(name)) return presetArchitecture(name);
  if (!files) throw unknownPreset(name);
  const { readArchitecture } = await import('./architecture/architecture.ts');
  return readArchitecture(files);
}

/** What an engine is given about a model's files; null for a preset, which has none. Throws ModelError. */
export async function loadCheckpoint(name: string, files: FileSource | null): Promise<Checkpoint | null> {
  if (isPreset(name)) return null;
  if (!files) throw unknownPreset(name);
  const { openCheckpoint } = await import('./weights/checkpoint.ts');
  return openCheckpoint(files);
}

/** Both steps in one thread: opens the checkpoint and its weights. Throws ModelError. */
export async function loadWeights(source: Omit<WeightSource, 'checkpoint'>): Promise<ModelWeights> {
  return weightsOf({ ...source, checkpoint: await loadCheckpoint(source.name, source.files) });
}

/** What is needed to turn text into prompts, in threads that run no engine. */
export interface TextModel {
  architecture: Architecture;
  tokenizer: Tokenizer;
  chat: ChatTemplate;
}

/** Imports the tokeniser and template code on first use, so that a page appears before it loads. Throws ModelError. */
export async function loadTokenizer(name: string, files: FileSource | null): Promise<TextModel> {
  const [{ Tokenizer }, { ChatTemplate }, architecture] = await Promise.all([
    import('./text/tokenizer.ts'),
    import('./text/chat.ts'),
    loadArchitecture(name, files),
  ]);
  const source = isPreset(name) ? memorySource(name, presetTokenizerFiles(name)) : files!;
  const tokenizer = await Tokenizer.load(source, architecture.vocabSize);
  const chat = await ChatTemplate.load(source, architecture.eosTokenIds);
  return { architecture, tokenizer, chat };
}

/** A FileSource over contents in memory. */
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
