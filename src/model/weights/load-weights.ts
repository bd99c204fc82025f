/**
 * Opens the weights that an engine loads. The thread that starts the engine has already located and checked a
 * checkpoint's tensors (load.ts), so an engine's thread contains no code for that.
 */
import type { FileSource } from '../../platform/types.ts';
import { isPreset, presetArchitecture, unknownPreset } from '../architecture/presets.ts';
import type { ModelWeights, WeightDtype } from '../types.ts';
import type { Checkpoint } from './hf-weights.ts';
import { SeededWeights } from './seeded-weights.ts';

export interface WeightSource {
  /** A preset's name, or with `files`, the user's name for the model. */
  name: string;
  /** null for a preset. */
  files: FileSource | null;
  /** The result of openCheckpoint; null for a preset. */
  checkpoint: Checkpoint | null;
  dtype: WeightDtype;
  /** Seed of generated weights; a checkpoint ignores it. */
  seed: number;
}

/**
 * A preset takes precedence over files of the same name. A directory of that name can be given as ./name. Throws
 * ModelError for an unknown name.
 */
export async function weightsOf(source: WeightSource): Promise<ModelWeights> {
  const { name, files, checkpoint, dtype, seed } = source;
  if (isPreset(name)) return new SeededWeights(presetArchitecture(name), seed, dtype);
  if (!files || !checkpoint) throw unknownPreset(name);
  // Imported only for a checkpoint.
  const { CheckpointWeights } = await import('./hf-weights.ts');
  return new CheckpointWeights(files, checkpoint, dtype);
}
