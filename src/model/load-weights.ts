/**
 * A model's architecture and weights by name: what an engine loads. Tokenizers and templates are load.ts. What reads a
 * checkpoint is loaded for a checkpoint only.
 */
import type { FileSource } from '../platform/types.ts';
import { isPreset, presetArchitecture, unknownPreset } from './presets.ts';
import { SeededWeights } from './seeded-weights.ts';
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

/** A preset's name wins over files of the same name; a directory of that name can be given as ./name. */
export async function loadArchitecture(name: string, files: FileSource | null): Promise<Architecture> {
  if (isPreset(name)) return presetArchitecture(name);
  if (!files) throw unknownPreset(name);
  const { readArchitecture } = await import('./architecture.ts');
  return readArchitecture(files);
}

export async function loadWeights({ name, files, dtype, seed }: WeightOptions): Promise<ModelWeights> {
  const architecture = await loadArchitecture(name, files);
  if (isPreset(name)) return new SeededWeights(architecture, seed, dtype);
  const { CheckpointWeights } = await import('./hf-weights.ts');
  return CheckpointWeights.open(files!, architecture, dtype);
}
