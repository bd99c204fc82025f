/** Where the page's models come from: presets need no files, recall lies beside the page, others are dropped or fetched. */
import { didYouMean } from '../../../src/config/fields.ts';
import { ModelError } from '../../../src/errors.ts';
import { isPreset, presetNames } from '../../../src/model/presets.ts';
import { blobSource, type ModelFiles } from '../../../src/platform/browser/blobs.ts';
import { type FetchProgress, fetchModel } from '../../../src/platform/browser/fetch-model.ts';
import type { FileSource } from '../../../src/platform/types.ts';

const SHIPPED = 'recall';
/** Told by the build. */
declare const SHIPPED_FILES: readonly string[];

export class ModelShelf {
  /** What the platform reads: engines that start from now on find these. */
  readonly files = new Map<string, ModelFiles>();

  /** Fetches what is not here yet. null for a preset. Throws ModelError. */
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

  /** What was fetched is no model, or was cut: it is fetched again when it is asked for next. */
  forget(name: string): void {
    // What was dropped cannot be had again.
    if (name === SHIPPED || /^https?:/.test(name)) this.files.delete(name);
  }

  /** Why it cannot be had, and what can; null: it can. */
  refusalOf(name: string): string | null {
    if (isPreset(name) || name === SHIPPED || this.files.has(name) || /^https?:/.test(name)) return null;
    const known = [SHIPPED, ...presetNames];
    return `There is no model '${name}'${didYouMean(name, known)}: there are ${known.join(', ')}, and others by their address. A directory that was dropped here is gone after a reload: drop it again.`;
  }

  /** A dropped directory. Returns the name to ask for. Throws ModelError that says which files are missing. */
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
        `${name} lacks ${missing.join(', ')} (it has ${has}): wanted a Hugging Face model directory, such as SmolLM2-135M-Instruct`,
      );
    }
    const label = isPreset(name) || name === SHIPPED ? `dropped ${name}` : name;
    this.files.set(label, byName);
    return label;
  }
}

/** A Hugging Face model directory's address as someone typed it. Throws Error that says what is wanted. */
export function modelUrl(text: string): string {
  const url = text.trim();
  if (!/^https?:\/\/\S+$/.test(url)) {
    throw new Error(
      `'${url}' is no address: wanted one of a Hugging Face model directory, such as https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct/resolve/main`,
    );
  }
  return url.replace(/\/+$/, '');
}
