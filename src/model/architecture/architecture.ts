/**
 * Reads a Hugging Face config.json as an Architecture: Llama, Mistral, Qwen2, Qwen3 and Gemma 3 (text), with full or
 * sliding-window attention per layer. Any unsupported feature is an error that names it.
 */
import { ModelError } from '../../errors.ts';
import type { FileSource } from '../../platform/types.ts';
import type { Activation, Architecture } from '../types.ts';
import { readAttention, readRopes } from './config-attention.ts';
import {
  type Config,
  configSchema,
  type Family,
  familyOf,
  familySchema,
  generationSchema,
  supportedArchitectures,
} from './config-schema.ts';
import { tokenizerEndToken } from './end-token.ts';
import { parseJson, pathOf, readJson, requireText } from './json-file.ts';

const activations: ReadonlyMap<string, Activation> = new Map([
  ['silu', 'silu'],
  ['swish', 'silu'],
  ['gelu_pytorch_tanh', 'gelu'],
]);

/**
 * The architecture of a Hugging Face directory. Requires config.json; adds the end tokens of generation_config.json
 * and of the tokeniser. Throws ModelError.
 */
export async function readArchitecture(files: FileSource): Promise<Architecture> {
  const where = pathOf(files, 'config.json');
  const text = await requireText(files, 'config.json');
  const family = supported(parseJson(text, where, familySchema), where);
  const config = parseJson(text, where, configSchema);
  const generation = await readJson(files, 'generation_config.json', generationSchema);
  refuseUnsupported(config, where);
  const numKvHeads = config.num_key_value_heads ?? config.num_attention_heads;
  const headDim = config.head_dim ?? config.hidden_size / config.num_attention_heads;
  checkHeads(config.num_attention_heads, numKvHeads, headDim, where);
  const attention = readAttention(config, family, where);
  const named = [config.eos_token_id ?? [], config.bos_token_id ?? []].flat();
  checkIds(named, config.vocab_size, where);
  const generated = [generation?.eos_token_id ?? []].flat();
  checkIds(generated, config.vocab_size, pathOf(files, 'generation_config.json'));
  const own = await tokenizerEndToken(files);
  // The model cannot generate an id outside its vocabulary.
  const ends = own === null || own >= config.vocab_size ? [] : [own];
  const eosTokenIds = [...new Set([config.eos_token_id ?? [], generated, ends].flat())];
  const gemma = family === 'gemma3';
  const biased = config.attention_bias && family !== 'mistral';
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
    attention,
    ...readRopes(config, family, attention, where),
    queryPreAttnScalar: gemma ? (config.query_pre_attn_scalar ?? null) : null,
    activation: activationOf(config, where),
    embeddingScale: gemma ? Math.sqrt(config.hidden_size) : 1,
    zeroCenteredNorms: gemma,
    outputNorms: gemma,
    maxModelLen: config.max_position_embeddings,
    tieWordEmbeddings: config.tie_word_embeddings ?? false,
    qkvBias: family === 'qwen2' || biased,
    oBias: family !== 'qwen2' && biased,
    mlpBias: family === 'llama' && config.mlp_bias,
    qkNorm: family === 'qwen3' || gemma,
    eosTokenIds,
  };
}

function checkIds(ids: readonly number[], vocabSize: number, where: string): void {
  const bad = ids.find((id) => id >= vocabSize);
  if (bad === undefined) return;
  throw new ModelError(
    `${where}: token id ${bad} is outside the vocabulary of ${vocabSize}: correct one of them`,
  );
}

function supported(config: Pick<Config, 'architectures' | 'model_type'>, where: string): Family {
  const family = familyOf(config);
  if (family) return family;
  const found = config.architectures?.[0] ?? `model_type '${config.model_type ?? 'none'}'`;
  throw new ModelError(
    `${where}: the architecture ${found} is not supported: wanted one of ${supportedArchitectures.join(', ')}`,
  );
}

function activationOf(config: Config, where: string): Activation {
  const activation = activations.get(config.hidden_act);
  if (activation) return activation;
  throw new ModelError(
    `${where}: hidden_act '${config.hidden_act}' is not supported: wanted 'silu' or 'gelu_pytorch_tanh'`,
  );
}

function refuseUnsupported(config: Config, where: string): void {
  const refuse = (found: string, wanted: string) => {
    throw new ModelError(`${where}: ${found} is not supported: ${wanted}`);
  };
  if (config.quantization_config) {
    refuse('quantization_config', 'wanted unquantised f32, f16 or bf16 weights; use the original checkpoint');
  }
  const experts = ['num_experts', 'num_local_experts', 'n_routed_experts'].find(
    (key) => Number(config[key] ?? 0) > 0,
  );
  if (experts) refuse(`a mixture of experts (${experts} ${config[experts]})`, 'wanted a dense model');
  const rotary = config.partial_rotary_factor ?? 1;
  if (rotary !== 1) refuse(`partial_rotary_factor ${rotary}`, 'wanted RoPE over whole heads (1)');
  for (const cap of ['attn_logit_softcapping', 'final_logit_softcapping'] as const) {
    if (config[cap]) refuse(`${cap} ${config[cap]}`, 'wanted null, as Gemma 3 has it');
  }
  if (config.use_bidirectional_attention) {
    refuse('use_bidirectional_attention', 'wanted a model that generates: attention to earlier tokens only');
  }
}

function checkHeads(numHeads: number, numKvHeads: number, headDim: number, where: string): void {
  if (numHeads % numKvHeads !== 0) {
    throw new ModelError(
      `${where}: num_attention_heads ${numHeads} is not a multiple of num_key_value_heads ${numKvHeads}: correct one of them`,
    );
  }
  if (!Number.isInteger(headDim) || headDim % 2 !== 0) {
    throw new ModelError(`${where}: head_dim is ${headDim}: wanted an even whole number; set head_dim`);
  }
}

/** The last component of a path or URL. */
function nameOf(location: string): string {
  return (
    location
      .split(/[\\/]+/)
      .filter(Boolean)
      .at(-1) ?? location
  );
}
