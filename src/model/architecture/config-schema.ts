/**
 * The schema of a Hugging Face config.json, with the defaults of the model's transformers class. A multimodal model has
 * its text part under text_config.
 */
import { z } from 'zod';

export const supportedArchitectures = [
  ...['LlamaForCausalLM', 'MistralForCausalLM', 'Qwen2ForCausalLM', 'Qwen3ForCausalLM'],
  ...['Gemma3ForCausalLM', 'Gemma3ForConditionalGeneration'],
] as const;

/** Architectures with the same structure. */
export type Family = 'llama' | 'mistral' | 'qwen2' | 'qwen3' | 'gemma3';

const families: ReadonlyMap<string, Family> = new Map([
  ['LlamaForCausalLM', 'llama'],
  ['MistralForCausalLM', 'mistral'],
  ['Qwen2ForCausalLM', 'qwen2'],
  ['Qwen3ForCausalLM', 'qwen3'],
  ['Gemma3ForCausalLM', 'gemma3'],
  ['Gemma3ForConditionalGeneration', 'gemma3'],
]);
/** Used when `architectures` is absent. */
const modelTypes: ReadonlyMap<string, Family> = new Map([
  ['llama', 'llama'],
  ['mistral', 'mistral'],
  ['qwen2', 'qwen2'],
  ['qwen3', 'qwen3'],
  ['gemma3', 'gemma3'],
  ['gemma3_text', 'gemma3'],
]);

/** Defaults of transformers' Gemma3TextConfig. Published configs omit many of these fields. */
const gemma3Defaults = {
  vocab_size: 262_208,
  hidden_size: 2304,
  intermediate_size: 9216,
  num_hidden_layers: 26,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  head_dim: 256,
  hidden_act: 'gelu_pytorch_tanh',
  max_position_embeddings: 131_072,
  rms_norm_eps: 1e-6,
  tie_word_embeddings: true,
  query_pre_attn_scalar: 256,
  sliding_window: 4096,
  rope_local_base_freq: 10_000,
};

const count = z.int().positive();
/** Far above any model: a file cannot make lists of these lengths that end the process. */
const MOST_LAYERS = 10_000;
const MOST_TOKEN_IDS = 2 ** 24;
const tokenIds = z.union([z.int().nonnegative(), z.array(z.int().nonnegative())]).nullish();

/** rope_scaling in older configs, rope_parameters in newer ones. `type` is the oldest spelling of rope_type. */
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

const textSchema = z.looseObject({
  architectures: z.array(z.string()).nullish(),
  model_type: z.string().optional(),
  hidden_size: count,
  num_hidden_layers: count.max(MOST_LAYERS),
  num_attention_heads: count,
  num_key_value_heads: count.nullish(),
  head_dim: count.nullish(),
  intermediate_size: count,
  vocab_size: count.max(MOST_TOKEN_IDS),
  max_position_embeddings: count,
  rms_norm_eps: z.number().positive().default(1e-6),
  rope_theta: z.number().positive().nullish(),
  rope_local_base_freq: z.number().positive().nullish(),
  rope_scaling: ropeSchema.nullish(),
  /** For all layers, or by layer type. */
  rope_parameters: ropeSchema
    .extend({ full_attention: ropeSchema.optional(), sliding_attention: ropeSchema.optional() })
    .nullish(),
  partial_rotary_factor: z.number().nullish(),
  tie_word_embeddings: z.boolean().nullable().default(false),
  attention_bias: z.boolean().default(false),
  mlp_bias: z.boolean().default(false),
  hidden_act: z.string().default('silu'),
  query_pre_attn_scalar: z.number().positive().nullish(),
  attn_logit_softcapping: z.number().nullish(),
  final_logit_softcapping: z.number().nullish(),
  use_bidirectional_attention: z.boolean().nullish(),
  sliding_window: count.nullish(),
  use_sliding_window: z.boolean().optional(),
  max_window_layers: z.int().default(28),
  sliding_window_pattern: count.nullish(),
  _sliding_window_pattern: count.nullish(),
  layer_types: z.array(z.string()).nullish(),
  quantization_config: z.unknown().optional(),
  eos_token_id: tokenIds,
  bos_token_id: z.int().nonnegative().nullish(),
});

const mapSchema = z.record(z.string(), z.unknown());

export const configSchema = z.preprocess(textPart, textSchema);
/** Only the fields that identify the family, since other models need not have the rest. */
export const familySchema = z.preprocess(
  textPart,
  z.looseObject(textSchema.pick({ architectures: true, model_type: true }).shape),
);
export const generationSchema = z.looseObject({ eos_token_id: tokenIds });

export type Config = z.infer<typeof configSchema>;
export type RopeConfig = z.infer<typeof ropeSchema>;

/** null if the architecture is not supported. */
export function familyOf(config: Pick<Config, 'architectures' | 'model_type'>): Family | null {
  const named = config.architectures?.[0];
  return (named === undefined ? modelTypes.get(config.model_type ?? '') : families.get(named)) ?? null;
}

/** The text model's part of the config, with its class's defaults. */
function textPart(value: unknown): unknown {
  const { data: whole } = mapSchema.safeParse(value);
  if (!whole) return value;
  const { data: text } = mapSchema.safeParse(whole.text_config);
  const { text_config: _, ...beside } = whole;
  const config = text ? { ...text, ...beside, model_type: text.model_type } : whole;
  const named = z.looseObject({ architectures: z.array(z.string()), model_type: z.string() }).partial();
  const family = familyOf(named.safeParse(config).data ?? {});
  if (family !== 'gemma3') return config;
  return { ...gemma3Defaults, ...config, hidden_act: config.hidden_activation ?? gemma3Defaults.hidden_act };
}
