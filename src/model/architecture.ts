/**
 * A Hugging Face config.json as an Architecture. Supported: LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM with
 * full attention everywhere. What a config needs beyond that is named in the error, never ignored.
 */
import { z } from 'zod';
import { ModelError } from '../errors.ts';
import type { FileSource } from '../platform/types.ts';
import { pathOf, readJson, requireJson } from './json-file.ts';
import type { Architecture, RopeScaling } from './types.ts';

const supportedArchitectures = ['LlamaForCausalLM', 'Qwen2ForCausalLM', 'Qwen3ForCausalLM'] as const;
type SupportedArchitecture = (typeof supportedArchitectures)[number];

const count = z.int().positive();
const tokenIds = z.union([z.int().nonnegative(), z.array(z.int().nonnegative())]).nullish();

/** rope_scaling of older configs, rope_parameters of newer ones; `type` is the oldest spelling of rope_type. */
const ropeSchema = z.looseObject({
  rope_type: z.string().optional(),
  type: z.string().optional(),
  rope_theta: z.number().positive().optional(),
  factor: z.number().positive().optional(),
  low_freq_factor: z.number().positive().optional(),
  high_freq_factor: z.number().positive().optional(),
  original_max_position_embeddings: count.optional(),
  partial_rotary_factor: z.number().optional(),
});

const configSchema = z.looseObject({
  architectures: z.array(z.string()).nullish(),
  model_type: z.string().optional(),
  hidden_size: count,
  num_hidden_layers: count,
  num_attention_heads: count,
  num_key_value_heads: count.nullish(),
  head_dim: count.nullish(),
  intermediate_size: count,
  vocab_size: count,
  max_position_embeddings: count,
  rms_norm_eps: z.number().positive().default(1e-6),
  rope_theta: z.number().positive().nullish(),
  rope_scaling: ropeSchema.nullish(),
  rope_parameters: ropeSchema.nullish(),
  partial_rotary_factor: z.number().nullish(),
  tie_word_embeddings: z.boolean().default(false),
  attention_bias: z.boolean().default(false),
  mlp_bias: z.boolean().default(false),
  hidden_act: z.string().default('silu'),
  sliding_window: z.number().nullish(),
  use_sliding_window: z.boolean().optional(),
  max_window_layers: z.number().int().default(28),
  layer_types: z.array(z.string()).nullish(),
  quantization_config: z.unknown().optional(),
  eos_token_id: tokenIds,
  bos_token_id: z.int().nonnegative().nullish(),
});

const generationSchema = z.looseObject({ eos_token_id: tokenIds });

type Config = z.infer<typeof configSchema>;

/** The architecture of a Hugging Face directory; needs config.json, takes end tokens from generation_config.json too. */
export async function readArchitecture(files: FileSource): Promise<Architecture> {
  const where = pathOf(files, 'config.json');
  const config = await requireJson(files, 'config.json', configSchema);
  const generation = await readJson(files, 'generation_config.json', generationSchema);
  const family = familyOf(config, where);
  refuseUnsupported(config, family, where);
  const numKvHeads = config.num_key_value_heads ?? config.num_attention_heads;
  const headDim = config.head_dim ?? config.hidden_size / config.num_attention_heads;
  checkHeads(config.num_attention_heads, numKvHeads, headDim, where);
  const rope = config.rope_parameters ?? config.rope_scaling ?? {};
  const eosTokenIds = [...new Set([config.eos_token_id ?? [], generation?.eos_token_id ?? []].flat())];
  const bad = [...eosTokenIds, config.bos_token_id ?? 0].find((id) => id >= config.vocab_size);
  if (bad !== undefined) {
    throw new ModelError(
      `${where}: token id ${bad} is outside of the vocabulary of ${config.vocab_size}: correct one of them`,
    );
  }
  return {
    name: nameOf(files.location),
    numLayers: config.num_hidden_layers,
    hiddenSize: config.hidden_size,
    numHeads: config.num_attention_heads,
    numKvHeads,
    headDim,
    intermediateSize: config.intermediate_size,
    vocabSize: config.vocab_size,
    rmsNormEps: config.rms_norm_eps,
    ropeTheta: rope.rope_theta ?? config.rope_theta ?? 10_000,
    ropeScaling: readRopeScaling(rope, where),
    maxModelLen: config.max_position_embeddings,
    tieWordEmbeddings: config.tie_word_embeddings,
    qkvBias: family === 'Qwen2ForCausalLM' || config.attention_bias,
    oBias: family !== 'Qwen2ForCausalLM' && config.attention_bias,
    mlpBias: family === 'LlamaForCausalLM' && config.mlp_bias,
    qkNorm: family === 'Qwen3ForCausalLM',
    eosTokenIds,
    bosTokenId: config.bos_token_id ?? null,
  };
}

function familyOf(config: Config, where: string): SupportedArchitecture {
  const byModelType: Record<string, SupportedArchitecture> = {
    llama: 'LlamaForCausalLM',
    qwen2: 'Qwen2ForCausalLM',
    qwen3: 'Qwen3ForCausalLM',
  };
  const named = config.architectures?.[0] ?? byModelType[config.model_type ?? ''];
  const family = supportedArchitectures.find((supported) => supported === named);
  if (family) return family;
  const found = named ?? `model_type '${config.model_type ?? 'none'}'`;
  throw new ModelError(
    `${where}: the architecture ${found} is not supported: wanted one of ${supportedArchitectures.join(', ')}`,
  );
}

function refuseUnsupported(config: Config, family: SupportedArchitecture, where: string): void {
  const refuse = (found: string, wanted: string) => {
    throw new ModelError(`${where}: ${found} is not supported: ${wanted}`);
  };
  if (config.hidden_act !== 'silu' && config.hidden_act !== 'swish') {
    refuse(`hidden_act '${config.hidden_act}'`, `wanted 'silu'`);
  }
  if (config.quantization_config) {
    refuse('quantization_config', 'wanted unquantised f32, f16 or bf16 weights; use the original checkpoint');
  }
  const experts = ['num_experts', 'num_local_experts', 'n_routed_experts'].find(
    (key) => Number(config[key] ?? 0) > 0,
  );
  if (experts) refuse(`a mixture of experts (${experts} ${config[experts]})`, 'wanted a dense model');
  const rotary = config.partial_rotary_factor ?? config.rope_parameters?.partial_rotary_factor ?? 1;
  if (rotary !== 1) refuse(`partial_rotary_factor ${rotary}`, 'wanted RoPE over whole heads (1)');
  refuseSlidingWindow(config, family, refuse);
}

function refuseSlidingWindow(
  config: Config,
  family: SupportedArchitecture,
  refuse: (found: string, wanted: string) => void,
): void {
  const other = config.layer_types?.find((type) => type !== 'full_attention');
  const wanted = 'wanted a model whose layers all have full_attention';
  if (other) refuse(`a layer type '${other}' (sliding_window ${config.sliding_window ?? 'none'})`, wanted);
  if (config.layer_types) return;
  // Without layer_types Hugging Face's Qwen configs let layers from max_window_layers on slide, if asked to.
  const slides =
    family === 'LlamaForCausalLM'
      ? typeof config.sliding_window === 'number'
      : config.use_sliding_window === true &&
        typeof config.sliding_window === 'number' &&
        config.max_window_layers < config.num_hidden_layers;
  if (slides) refuse(`sliding_window ${config.sliding_window}`, wanted);
}

function checkHeads(numHeads: number, numKvHeads: number, headDim: number, where: string): void {
  if (numHeads % numKvHeads !== 0) {
    throw new ModelError(
      `${where}: num_attention_heads ${numHeads} is no multiple of num_key_value_heads ${numKvHeads}: correct one of them`,
    );
  }
  if (!Number.isInteger(headDim) || headDim % 2 !== 0) {
    throw new ModelError(
      `${where}: heads of ${headDim} dimensions: wanted an even whole number; set head_dim`,
    );
  }
}

function readRopeScaling(rope: z.infer<typeof ropeSchema>, where: string): RopeScaling | null {
  const type = rope.rope_type ?? rope.type ?? 'default';
  if (type === 'default') return null;
  if (type !== 'llama3') {
    throw new ModelError(`${where}: rope_type '${type}' is not supported: wanted 'default' or 'llama3'`);
  }
  const need = (
    key: 'factor' | 'low_freq_factor' | 'high_freq_factor' | 'original_max_position_embeddings',
  ) => {
    const value = rope[key];
    if (value === undefined) throw new ModelError(`${where}: rope_type 'llama3' needs ${key}: there is none`);
    return value;
  };
  const scaling: RopeScaling = {
    type,
    factor: need('factor'),
    lowFreqFactor: need('low_freq_factor'),
    highFreqFactor: need('high_freq_factor'),
    originalMaxPositionEmbeddings: need('original_max_position_embeddings'),
  };
  if (scaling.highFreqFactor <= scaling.lowFreqFactor) {
    throw new ModelError(
      `${where}: high_freq_factor ${scaling.highFreqFactor} must be more than low_freq_factor ${scaling.lowFreqFactor}: correct one of them`,
    );
  }
  return scaling;
}

/** The last part of a path or URL. */
function nameOf(location: string): string {
  return (
    location
      .split(/[\\/]+/)
      .filter(Boolean)
      .at(-1) ?? location
  );
}
