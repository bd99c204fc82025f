/** Rotary position embedding: the rotation of each pair of a head's dimensions, per position. */
import type { Rope } from '../types.ts';

/**
 * Radians per position of each pair (i, i + headDim / 2), [headDim / 2]. Linear scaling stretches every wavelength by
 * the factor. llama3 scaling stretches long wavelengths, keeps short ones, and blends those between (Hugging Face:
 * modeling_rope_utils.py, _compute_llama3_parameters).
 */
export function ropeFrequencies({
  headDim,
  ropeTheta,
  ropeScaling,
}: Rope & { headDim: number }): Float64Array {
  return Float64Array.from({ length: headDim / 2 }, (_, i) => {
    const frequency = ropeTheta ** ((-2 * i) / headDim);
    if (!ropeScaling) return frequency;
    if (ropeScaling.type === 'linear') return frequency / ropeScaling.factor;
    const { factor, lowFreqFactor, highFreqFactor, originalMaxPositionEmbeddings } = ropeScaling;
    // Full turns of the pair within the context length of the original training.
    const turns = (originalMaxPositionEmbeddings * frequency) / (2 * Math.PI);
    if (turns < lowFreqFactor) return frequency / factor;
    if (turns > highFreqFactor) return frequency;
    const blend = (turns - lowFreqFactor) / (highFreqFactor - lowFreqFactor);
    return (1 - blend) * (frequency / factor) + blend * frequency;
  });
}
