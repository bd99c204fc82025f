/**
 * What an engine loads: weights by a model's name. A checkpoint's tensors were found and checked by whoever starts the
 * engine (load.ts): an engine's thread has no code that checks files.
 */
import type { FileSource } from '../platform/types.ts';
import type { Checkpoint } from './hf-weights.ts';
import { isPreset, presetArchitecture, unknownPreset } from './presets.ts';
import { SeededWeights } from './seeded-weights.ts';
import type { ModelWeights, WeightDtype } from './types.ts';

export interface WeightSource {
  /** A preset's name; with files, what the user called the model. */
  name: string;
  /** null for a preset. */
  files: FileSource | null;
  /** What openCheckpoint found in them; null for a preset. */
  checkpoint: Checkpoint | null;
  dtype: WeightDtype;
  /** Of generated weights; of no effect on a checkpoint. */
  seed: number;
}

/** A preset's name wins over files of the same name; a directory of that name can be given as ./name. */
export async function weightsOf(source: WeightSource): Promise<ModelWeights> {
  const { name, files, checkpoint, dtype, seed } = source;
  if (isPreset(name)) return new SeededWeights(presetArchitecture(name), seed, dtype);
  if (!files || !checkpoint) throw unknownPreset(name);
  // Loaded for a checkpoint only.
  const { CheckpointWeights } = await import('./hf-weights.ts');
  return new CheckpointWeights(files, checkpoint, dtype);
}
