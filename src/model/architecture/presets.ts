/**
 * Model shapes that need no files: weights come from a seed (seeded-weights.ts), and the tokeniser is generated
 * (preset-tokenizer.ts). nano, tiny, tiny-hybrid and small are kvferry's own, for machines without a GPU. The others
 * are published shapes.
 */
import { nearest } from '../../config/fields.ts';
import { ModelError } from '../../errors.ts';
import type { Architecture, LayerAttention } from '../types.ts';
import { FULL_ATTENTION } from './layer-attention.ts';

/** Special ids, the same in every preset. */
export const presetTokenIds = { endOfTurn: 0, user: 1, assistant: 2, system: 3, unknown: 4 } as const;

type Shape = Omit<Architecture, 'name' | 'oBias' | 'mlpBias' | 'eosTokenIds'>;

const base = {
  rmsNormEps: 1e-5,
  ropeTheta: 10_000,
  ropeScaling: null,
  attention: FULL_ATTENTION,
  slidingRope: null,
  queryPreAttnScalar: null,
  activation: 'silu',
  embeddingScale: 1,
  zeroCenteredNorms: false,
  outputNorms: false,
  qkNorm: false,
  maxModelLen: 8192,
  tieWordEmbeddings: true,
  qkvBias: false,
} as const;

/** Gemma 3's pattern: five sliding-window layers, then one full layer. The two kinds have different RoPE bases. */
const gemma3 = (hiddenSize: number, window: number) =>
  ({
    ...base,
    hiddenSize,
    rmsNormEps: 1e-6,
    attention: [...new Array<LayerAttention>(5).fill({ kind: 'sliding', window }), ...FULL_ATTENTION],
    ropeTheta: 1_000_000,
    slidingRope: { ropeTheta: 10_000, ropeScaling: null },
    activation: 'gelu',
    embeddingScale: Math.sqrt(hiddenSize),
    zeroCenteredNorms: true,
    outputNorms: true,
    qkNorm: true,
  }) as const;

// biome-ignore format: a table
const shapes = {
  nano: { ...base, numLayers: 2, hiddenSize: 64, numHeads: 2, numKvHeads: 1, headDim: 32, intermediateSize: 192, vocabSize: 512 },
  tiny: { ...base, numLayers: 6, hiddenSize: 256, numHeads: 4, numKvHeads: 2, headDim: 64, intermediateSize: 768, vocabSize: 4096 },
  'tiny-hybrid': { ...gemma3(256, 128), numLayers: 6, numHeads: 4, numKvHeads: 2, headDim: 64, intermediateSize: 768, vocabSize: 4096 },
  small: { ...base, numLayers: 8, hiddenSize: 384, numHeads: 6, numKvHeads: 2, headDim: 64, intermediateSize: 1024, vocabSize: 8192 },
  // huggingface.co/HuggingFaceTB/SmolLM2-135M, config.json
  'smollm2-135m': {
    ...base, numLayers: 30, hiddenSize: 576, numHeads: 9, numKvHeads: 3, headDim: 64, intermediateSize: 1536, vocabSize: 49_152,
    ropeTheta: 100_000,
  },
  // huggingface.co/Qwen/Qwen2.5-0.5B, config.json
  'qwen2.5-0.5b': {
    ...base, numLayers: 24, hiddenSize: 896, numHeads: 14, numKvHeads: 2, headDim: 64, intermediateSize: 4864, vocabSize: 151_936,
    ropeTheta: 1_000_000, rmsNormEps: 1e-6, maxModelLen: 32_768, qkvBias: true,
  },
  // huggingface.co/meta-llama/Llama-3.2-1B, config.json
  'llama-3.2-1b': {
    ...base, numLayers: 16, hiddenSize: 2048, numHeads: 32, numKvHeads: 8, headDim: 64, intermediateSize: 8192, vocabSize: 128_256,
    ropeTheta: 500_000, maxModelLen: 131_072,
    ropeScaling: { type: 'llama3', factor: 32, lowFreqFactor: 1, highFreqFactor: 4, originalMaxPositionEmbeddings: 8192 },
  },
  // huggingface.co/google/gemma-3-270m, config.json
  'gemma-3-270m': {
    ...gemma3(640, 512), numLayers: 18, numHeads: 4, numKvHeads: 1, headDim: 256, intermediateSize: 2048, vocabSize: 262_144,
    queryPreAttnScalar: 256, maxModelLen: 32_768,
  },
  // huggingface.co/google/gemma-3-1b-it, config.json
  'gemma-3-1b': {
    ...gemma3(1152, 512), numLayers: 26, numHeads: 4, numKvHeads: 1, headDim: 256, intermediateSize: 6912, vocabSize: 262_144,
    queryPreAttnScalar: 256, maxModelLen: 32_768,
  },
} satisfies Record<string, Shape>;

export type PresetName = keyof typeof shapes;

export const presetNames = Object.keys(shapes) as readonly PresetName[];

/** A trained model that ships with the project, as a directory. */
const shippedModel = 'recall';

export function isPreset(name: string): name is PresetName {
  return Object.hasOwn(shapes, name);
}

/** The architecture of a preset. Throws ModelError, with the nearest name, if there is no such preset. */
export function presetArchitecture(name: string): Architecture {
  if (!isPreset(name)) throw unknownPreset(name);
  return {
    ...(shapes[name] satisfies Shape),
    name,
    oBias: false,
    mlpBias: false,
    eosTokenIds: [presetTokenIds.endOfTurn],
  };
}

export function unknownPreset(name: string): ModelError {
  const known = [shippedModel, ...presetNames];
  if (/[\\/]/.test(name)) {
    return new ModelError(
      `there is no directory '${name}': wanted one with config.json, or one of ${known.join(', ')}`,
    );
  }
  const near = nearest(name, known);
  return new ModelError(
    `there is no model '${name}': wanted one of ${known.join(', ')}, or a directory with config.json${near ? `; did you mean '${near}'?` : ''}`,
  );
}
export { countParameters } from './tensor-names.ts';
