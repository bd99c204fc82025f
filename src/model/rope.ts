/** Rotary position embedding as numbers: the angle a pair of a head's dimensions turns by, per position. */
import type { Architecture } from './types.ts';

/**
 * Radians per position of each pair (i, i + headDim / 2), [headDim / 2]. With llama3 scaling long wavelengths are
 * stretched by the factor, short ones kept, those between blended (Hugging Face: modeling_rope_utils.py,
 * _compute_llama3_parameters).
 */
export function ropeFrequencies(
  architecture: Pick<Architecture, 'headDim' | 'ropeTheta' | 'ropeScaling'>,
): Float64Array {
  const { headDim, ropeTheta, ropeScaling } = architecture;
  return Float64Array.from({ length: headDim / 2 }, (_, i) => {
    const frequency = ropeTheta ** ((-2 * i) / headDim);
    if (!ropeScaling) return frequency;
    const { factor, lowFreqFactor, highFreqFactor, originalMaxPositionEmbeddings } = ropeScaling;
    // How often the pair turned round within the context the model was first trained on.
    const turns = (originalMaxPositionEmbeddings * frequency) / (2 * Math.PI);
    if (turns < lowFreqFactor) return frequency / factor;
    if (turns > highFreqFactor) return frequency;
    const blend = (turns - lowFreqFactor) / (highFreqFactor - lowFreqFactor);
    return (1 - blend) * (frequency / factor) + blend * frequency;
  });
}
