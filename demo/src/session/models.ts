/** Sources of the page's models: presets need no files, recall is hosted with the page, others are dropped or fetched. */
import { didYouMean } from '../../../src/config/fields.ts';
import { ModelError } from '../../../src/errors.ts';
import { isPreset, presetNames } from '../../../src/model/architecture/presets.ts';
import { blobSource, type ModelFiles } from '../../../src/platform/browser/blobs.ts';
import { type FetchProgress, fetchModel } from '../../../src/platform/browser/fetch-model.ts';
import type { FileSource } from '../../../src/platform/types.ts';

const SHIPPED = 'recall';
/** Defined by the build. */
declare const SHIPPED_FILES: readonly string[];

export class ModelShelf {
  /** Files by model name. The platform passes them to engines that start from now on. */
  readonly files = new Map<string, ModelFiles>();

  /** Returns a model's files; fetches them if needed. null for a preset. Throws ModelError. */
  async open(name: string, onProgress: (progress: FetchProgress) => void): Promise<FileSource | null> {
    if (isPreset(name)) return null;
    const known = this.files.get(name);
    if (known) return blobSource(name, known);
    const refusal = this.refusalOf(name);
    if (refusal !== null) throw new ModelError(refusal);
    const shipped = name === SHIPPED;
    const base = shipped ? new URL(`models/${SHIPPED}`, document.baseURI).href : name;
    const files = await fetchModel(base, onProgress, shipped ? SHIPPED_FILES : null);
    this.files.set(name, files);
    return blobSource(name, files);
  }

  /** Forgets fetched files that are broken or incomplete, so that the next open() fetches them again. */
  forget(name: string): void {
    // Dropped files cannot be fetched again.
    if (name === SHIPPED || /^https?:/.test(name)) this.files.delete(name);
  }

  /** Why the model is not available, with those that are; null if it is available. */
  refusalOf(name: string): string | null {
    if (isPreset(name) || name === SHIPPED || this.files.has(name) || /^https?:/.test(name)) return null;
    const known = [SHIPPED, ...presetNames];
    return `There is no model '${name}'${didYouMean(name, known)}: use ${known.join(', ')}, or the address of another one. A dropped directory is lost when the page reloads: drop it again.`;
  }

  /** Adds a dropped directory. Returns the model's name. Throws ModelError that names missing files. */
  drop(name: string, files: readonly File[]): string {
    const byName = new Map<string, Blob>(files.map((file) => [file.name, file]));
    const weights = [...byName.keys()].some((file) => file.endsWith('.safetensors'));
    const missing = ['config.json', 'tokenizer.json', 'tokenizer_config.json'].filter(
      (file) => !byName.has(file),
    );
    if (!weights) missing.push('model.safetensors');
    if (missing.length > 0) {
      const has = [...byName.keys()].slice(0, 6).join(', ') || 'no files';
      throw new ModelError(
        `${name}: ${missing.join(', ')} ${missing.length > 1 ? 'are' : 'is'} missing (found ${has}): wanted a Hugging Face model directory, such as SmolLM2-135M-Instruct`,
      );
    }
    const label = isPreset(name) || name === SHIPPED ? `dropped ${name}` : name;
    this.files.set(label, byName);
    return label;
  }
}

/** Checks the typed address of a Hugging Face model directory. Throws Error that says what is wanted. */
export function modelUrl(text: string): string {
  const url = text.trim();
  if (!/^https?:\/\/\S+$/.test(url)) {
    throw new Error(
      `'${url}' is not an address: wanted that of a Hugging Face model directory, such as https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct/resolve/main`,
    );
  }
  return url.replace(/\/+$/, '');
}
