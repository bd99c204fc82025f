import { describe, expect, it } from 'vitest';
import { ModelError } from '../../src/errors.ts';
import { readArchitecture } from '../../src/model/architecture/architecture.ts';
import { presetArchitecture, presetNames } from '../../src/model/architecture/presets.ts';
import { countParameters } from '../../src/model/architecture/tensor-names.ts';
import { loadArchitecture, loadTokenizer, loadWeights, memorySource } from '../../src/model/load.ts';
import { directorySource } from '../../src/platform/node/files.ts';
import { oddConfig } from './checkpoint.ts';

const read = (config: object, generation?: object, others: Record<string, object> = {}) => {
  const files = {
    'config.json': config,
    ...(generation && { 'generation_config.json': generation }),
    ...others,
  };
  const written = Object.entries(files).map(([name, content]) => [name, JSON.stringify(content)]);
  return readArchitecture(memorySource('some/model/', Object.fromEntries(written)));
};

const qwen3 = { architectures: ['Qwen3ForCausalLM'] };
/** Every second layer has full attention. */
const gemma3 = {
  architectures: ['Gemma3ForCausalLM'],
  sliding_window: 16,
  sliding_window_pattern: 2,
  rope_local_base_freq: 10_000,
};

describe('config.json', () => {
  it('gives the recall model its shape', async () => {
    expect(await readArchitecture(directorySource('models/recall'))).toEqual({
      name: 'recall',
      numLayers: 4,
      hiddenSize: 192,
      numHeads: 6,
      numKvHeads: 2,
      headDim: 32,
      intermediateSize: 512,
      vocabSize: 1024,
      rmsNormEps: 1e-5,
      ropeTheta: 10_000,
      ropeScaling: null,
      attention: [{ kind: 'full' }],
      slidingRope: null,
      queryPreAttnScalar: null,
      activation: 'silu',
      embeddingScale: 1,
      zeroCenteredNorms: false,
      outputNorms: false,
      maxModelLen: 2048,
      tieWordEmbeddings: true,
      qkvBias: false,
      oBias: false,
      mlpBias: false,
      qkNorm: false,
      eosTokenIds: [0],
    });
  });

  it('uses the defaults of Hugging Face for missing fields', async () => {
    const {
      num_key_value_heads: _,
      head_dim: __,
      rope_theta: ___,
      tie_word_embeddings: ____,
      ...rest
    } = oddConfig;
    const architecture = await read({ ...rest, hidden_size: 12 });
    expect(architecture).toMatchObject({
      name: 'model',
      numKvHeads: 3,
      headDim: 4,
      ropeTheta: 10_000,
      tieWordEmbeddings: false,
    });
    expect((await read({ ...oddConfig, tie_word_embeddings: null })).tieWordEmbeddings).toBe(false);
  });

  it('and generation_config.json together give the end tokens, as numbers or lists', async () => {
    expect((await read(oddConfig, { eos_token_id: [3, 0] })).eosTokenIds).toEqual([0, 3]);
    expect((await read({ ...oddConfig, eos_token_id: [1, 2] })).eosTokenIds).toEqual([1, 2]);
    expect((await read({ ...oddConfig, eos_token_id: null })).eosTokenIds).toEqual([]);
  });

  it("and the tokenizer's end token together give the end tokens", async () => {
    const ends = async (tokenizerConfig: object, tokenizer?: object) => {
      const files = {
        'tokenizer_config.json': tokenizerConfig,
        ...(tokenizer && { 'tokenizer.json': tokenizer }),
      };
      return (await read({ ...oddConfig, eos_token_id: 2 }, { eos_token_id: 2 }, files)).eosTokenIds;
    };
    const eos_token = '<|im_end|>';
    const added = { added_tokens: [{ id: 5, content: eos_token, special: true }] };
    expect(await ends({ eos_token, added_tokens_decoder: { 3: { content: eos_token } } })).toEqual([2, 3]);
    expect(await ends({ eos_token: { content: eos_token, lstrip: false } }, added)).toEqual([2, 5]);
    const vocab = { model: { vocab: { a: 0, [eos_token]: 4 } } };
    expect(await ends({ eos_token }, { added_tokens: [], ...vocab })).toEqual([2, 4]);
    expect(await ends({ eos_token, added_tokens_decoder: { 2: { content: eos_token } } })).toEqual([2]);
    expect(await ends({ eos_token, added_tokens_decoder: { 7: { content: eos_token } } })).toEqual([2]);
    expect(await ends({ eos_token: '</s>' }, added)).toEqual([2]);
    expect(await ends({ eos_token: null }, added)).toEqual([2]);
    expect(await ends({ eos_token })).toEqual([2]);
  });

  it('reads llama3 scaling from rope_scaling and from rope_parameters', async () => {
    const scaling = {
      rope_type: 'llama3',
      factor: 8,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 16,
    };
    const wanted = {
      type: 'llama3',
      factor: 8,
      lowFreqFactor: 1,
      highFreqFactor: 4,
      originalMaxPositionEmbeddings: 16,
    };
    const old = await read({ ...oddConfig, rope_theta: 5e5, rope_scaling: scaling });
    expect(old).toMatchObject({ ropeTheta: 5e5, ropeScaling: wanted });
    const { rope_theta: _, ...rest } = oddConfig;
    const now = await read({ ...rest, rope_parameters: { ...scaling, rope_theta: 5e5 } });
    expect(now).toMatchObject({ ropeTheta: 5e5, ropeScaling: wanted });
  });

  it('determines which parts have biases and QK norms, by family', async () => {
    const of = async (family: string, more: object = {}) => {
      const a = await read({ ...oddConfig, architectures: [`${family}ForCausalLM`], ...more });
      return [a.qkvBias, a.oBias, a.mlpBias, a.qkNorm];
    };
    expect(await of('Llama')).toEqual([false, false, false, false]);
    expect(await of('Llama', { attention_bias: true, mlp_bias: true })).toEqual([true, true, true, false]);
    expect(await of('Qwen2')).toEqual([true, false, false, false]);
    expect(await of('Qwen3')).toEqual([false, false, false, true]);
    expect(await of('Mistral', { attention_bias: true })).toEqual([false, false, false, false]);
    expect(await of('Gemma3')).toEqual([false, false, false, true]);
  });

  it('may name a sliding window that no layer uses', async () => {
    const qwen2 = { ...oddConfig, architectures: ['Qwen2ForCausalLM'] };
    await expect(read({ ...qwen2, sliding_window: 8, use_sliding_window: false })).resolves.toBeDefined();
    await expect(
      read({ ...qwen2, sliding_window: 8, use_sliding_window: true, max_window_layers: 28 }),
    ).resolves.toBeDefined();
    await expect(
      read({ ...qwen2, sliding_window: 8, layer_types: ['full_attention'] }),
    ).resolves.toBeDefined();
  });

  it.each([
    [
      { architectures: ['MambaForCausalLM'] },
      /architecture MambaForCausalLM is not supported: wanted one of LlamaForCausalLM/,
    ],
    [{ architectures: null, model_type: 'gpt2' }, /model_type 'gpt2' is not supported/],
    [{ hidden_act: 'gelu' }, /hidden_act 'gelu' is not supported/],
    // Names that every object has.
    [{ architectures: ['constructor'] }, /architecture constructor is not supported/],
    [{ architectures: null, model_type: '__proto__' }, /model_type '__proto__' is not supported/],
    [{ hidden_act: 'toString' }, /hidden_act 'toString' is not supported/],
    [{ num_hidden_layers: 2 ** 31 }, /num_hidden_layers is 2147483648: Too big/],
    [{ vocab_size: 2 ** 50 }, /vocab_size is 1125899906842624: Too big/],
    [{ quantization_config: { quant_method: 'gptq' } }, /quantization_config is not supported/],
    [{ num_local_experts: 8 }, /mixture of experts \(num_local_experts 8\) is not supported/],
    [
      { rope_scaling: { type: 'yarn', factor: 2 } },
      /rope_type 'yarn' is not supported: wanted 'default', 'linear' or 'llama3'/,
    ],
    [{ rope_scaling: { factor: 2 } }, /RoPE has factor 2 but no rope_type: wanted/],
    [{ rope_scaling: { type: 'linear' } }, /rope_type 'linear' needs factor, which is missing/],
    [{ rope_scaling: { rope_type: 'llama3', factor: 2 } }, /rope_type 'llama3' needs low_freq_factor/],
    [{ partial_rotary_factor: 0.5 }, /partial_rotary_factor 0.5 is not supported/],
    [
      { rope_parameters: { rope_theta: 5e5 } },
      /rope_parameters.rope_theta is 500000, but rope_theta is 10000/,
    ],
    [
      {
        ...qwen3,
        rope_parameters: { rope_type: 'default', rope_theta: 10_000 },
        rope_scaling: { rope_type: 'linear', factor: 4 },
      },
      /rope_scaling and rope_parameters are both given, and differ: wanted one of them/,
    ],
    [
      {
        rope_parameters: { rope_type: 'default' },
        rope_scaling: { rope_type: 'default', rope_theta: 1e6 },
      },
      /rope_scaling and rope_parameters are both given, and differ/,
    ],
    [
      { rope_parameters: { rope_type: 'default' }, rope_scaling: { rope_type: 'yarn', factor: 4 } },
      /rope_type 'yarn' is not supported/,
    ],
    [{ sliding_window: 4096 }, /sliding_window 4096 is not supported in a Llama/],
    [
      { layer_types: ['sliding_attention'] },
      /layer type 'sliding_attention' of layer 0 is not supported in a Llama/,
    ],
    [{ layer_types: ['chunked_attention'] }, /layer type 'chunked_attention' of layer 0 is not supported/],
    [
      { layer_types: ['full_attention', 'full_attention'] },
      /layer_types has 2 entries, but num_hidden_layers is 1/,
    ],
    [
      { ...qwen3, layer_types: ['sliding_attention'], sliding_window: 8 },
      /layer 0 is 'sliding_attention', but use_sliding_window is missing: wanted a window/,
    ],
    [
      { ...qwen3, layer_types: ['sliding_attention'], sliding_window: null, use_sliding_window: true },
      /layer 0 is 'sliding_attention', but sliding_window is missing: wanted a window/,
    ],
    [
      { ...qwen3, use_sliding_window: true, sliding_window: 0 },
      /config.json: sliding_window is 0: .*>0; correct it/,
    ],
    [
      { ...gemma3, num_hidden_layers: 2, layer_types: ['full_attention', 'full_attention'] },
      /layer 0 is 'full_attention' by layer_types and 'sliding_attention' by sliding_window_pattern 2/,
    ],
    [
      { ...gemma3, _sliding_window_pattern: 6 },
      /sliding_window_pattern is 2, but _sliding_window_pattern is 6: correct one/,
    ],
    [{ ...gemma3, sliding_window: null }, /layer 0 is 'sliding_attention', but sliding_window is missing/],
    [
      { ...gemma3, num_hidden_layers: 2, rope_parameters: { full_attention: { rope_theta: 10_000 } } },
      /rope_parameters has no sliding_attention, but some layers have that type/,
    ],
    [
      { ...gemma3, hidden_activation: 'gelu' },
      /hidden_act 'gelu' is not supported: wanted 'silu' or 'gelu_p/,
    ],
    [{ ...gemma3, final_logit_softcapping: 30 }, /final_logit_softcapping 30 is not supported/],
    [{ ...gemma3, use_bidirectional_attention: true }, /use_bidirectional_attention is not supported/],
    [{ num_key_value_heads: 2 }, /num_attention_heads 3 is not a multiple of num_key_value_heads 2/],
    [{ head_dim: 3 }, /head_dim is 3: wanted an even whole number/],
    [{ hidden_size: 'big' }, /config.json: hidden_size: .*expected number/],
    [{ eos_token_id: 7 }, /token id 7 is outside the vocabulary of 7/],
  ])('with %j is refused in one sentence', async (change, message) => {
    const error = await read({ ...oddConfig, ...change }).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(ModelError);
    expect((error as Error).message).toMatch(message);
    expect((error as Error).message).toContain('some/model/config.json');
    expect((error as Error).message).not.toContain('\n');
  });

  it('of an unsupported architecture is refused by its name, even if its size fields differ', async () => {
    const gpt2 = { architectures: ['GPT2LMHeadModel'], model_type: 'gpt2', n_embd: 768, vocab_size: 50_257 };
    await expect(read(gpt2)).rejects.toThrow(
      'config.json: the architecture GPT2LMHeadModel is not supported: wanted one of LlamaForCausalLM',
    );
  });

  it('with an end token outside the vocabulary is refused with the name of the file that has it', async () => {
    await expect(read(oddConfig, { eos_token_id: [0, 99] })).rejects.toThrow(
      'some/model/generation_config.json: token id 99 is outside the vocabulary of 7',
    );
  });

  const sliding = (window: number) => ({ kind: 'sliding', window });
  const full = { kind: 'full' };

  it('gives the hybrid fixtures their windows, and Gemma its other features', async () => {
    const fixture = (name: string) => readArchitecture(directorySource(`test/fixtures/hf/${name}`));
    expect(await fixture('gemma3-hybrid')).toMatchObject({
      attention: [...new Array(5).fill(sliding(32)), full, sliding(32)],
      ropeTheta: 1_000_000,
      ropeScaling: null,
      slidingRope: { ropeTheta: 10_000, ropeScaling: null },
      queryPreAttnScalar: 24,
      activation: 'gelu',
      embeddingScale: 8,
      zeroCenteredNorms: true,
      outputNorms: true,
      qkNorm: true,
      tieWordEmbeddings: true,
    });
    const mistral = await fixture('mistral-sliding');
    expect([mistral.attention, mistral.slidingRope]).toEqual([new Array(3).fill(sliding(40)), null]);
    expect((await fixture('qwen3-hybrid-window')).attention).toEqual([sliding(32), full, sliding(32), full]);
  });

  it('gives each layer its attention kind in older and newer formats', async () => {
    const attention = async (config: object) =>
      (await read({ ...oddConfig, num_hidden_layers: 3, ...config })).attention;
    const mistral = { architectures: ['MistralForCausalLM'] };
    expect(await attention({ ...mistral, sliding_window: 8 })).toEqual(new Array(3).fill(sliding(8)));
    expect(await attention({ ...mistral, sliding_window: null })).toEqual([full]);
    expect(await attention(mistral)).toEqual(new Array(3).fill(sliding(4096)));
    const slides = { ...qwen3, use_sliding_window: true, sliding_window: 8 };
    expect(await attention({ ...slides, max_window_layers: 1 })).toEqual([full, sliding(8), sliding(8)]);
    expect(await attention({ ...slides, max_window_layers: 3 })).toEqual([full]);
    expect(await attention(gemma3)).toEqual([sliding(16), full, sliding(16)]);
    const types = ['full_attention', 'sliding_attention', 'full_attention'];
    const { sliding_window_pattern: _, ...noPattern } = gemma3;
    expect(await attention({ ...noPattern, layer_types: types })).toEqual([full, sliding(16), full]);
  });

  it('gives each kind of layer its rotary base, from flat fields or by layer type', async () => {
    const { rope_theta: _, ...rest } = { ...oddConfig, num_hidden_layers: 2 };
    const linear = { ropeTheta: 1e6, ropeScaling: { type: 'linear', factor: 8 } };
    const local = { ropeTheta: 10_000, ropeScaling: null };
    const flat = await read({ ...rest, ...gemma3, rope_scaling: { rope_type: 'linear', factor: 8 } });
    expect(flat).toMatchObject({ ...linear, slidingRope: local });
    const byType = {
      full_attention: { rope_type: 'linear', factor: 8, rope_theta: 1e6 },
      sliding_attention: { rope_type: 'default', rope_theta: 10_000 },
    };
    const hybrid = { ...linear, slidingRope: local };
    expect(await read({ ...rest, ...gemma3, rope_parameters: byType })).toMatchObject(hybrid);
    const withoutBases = {
      full_attention: { rope_type: 'linear', factor: 8 },
      sliding_attention: { rope_type: 'default' },
    };
    expect(await read({ ...rest, ...gemma3, rope_parameters: withoutBases })).toMatchObject(hybrid);
    const twice = { rope_parameters: byType, rope_scaling: { type: 'linear', factor: 8 } };
    expect(await read({ ...rest, ...gemma3, ...twice })).toMatchObject(hybrid);
  });

  it('of multimodal Gemma 3 gives its text model, with the class defaults for missing fields', async () => {
    // huggingface.co/google/gemma-3-4b-it, config.json
    const architecture = await read({
      architectures: ['Gemma3ForConditionalGeneration'],
      eos_token_id: [1, 106],
      model_type: 'gemma3',
      text_config: {
        hidden_size: 2560,
        intermediate_size: 10_240,
        model_type: 'gemma3_text',
        num_hidden_layers: 34,
        rope_scaling: { factor: 8, rope_type: 'linear' },
        sliding_window: 1024,
      },
      vision_config: { hidden_size: 1152 },
    });
    expect(architecture).toMatchObject({
      numLayers: 34,
      hiddenSize: 2560,
      numHeads: 8,
      numKvHeads: 4,
      headDim: 256,
      vocabSize: 262_208,
      ropeTheta: 1e6,
      ropeScaling: { type: 'linear', factor: 8 },
      maxModelLen: 131_072,
      queryPreAttnScalar: 256,
      tieWordEmbeddings: true,
      eosTokenIds: [1, 106],
    });
    expect(architecture.attention.filter(({ kind }) => kind === 'sliding')).toHaveLength(29);
    expect(architecture.attention[5]).toEqual(full);
  });

  it('is named in the error when it is missing or not JSON', async () => {
    await expect(readArchitecture(memorySource('m', {}))).rejects.toThrow('m has no config.json');
    await expect(readArchitecture(memorySource('m', { 'config.json': '{' }))).rejects.toThrow(
      /m\/config.json is not JSON/,
    );
  });
});

describe('presets', () => {
  it('have the parameter counts of the public models', () => {
    const counts = presetNames.map((name) => [name, countParameters(presetArchitecture(name))]);
    expect(Object.fromEntries(counts)).toMatchObject({
      'smollm2-135m': 134_515_008,
      'qwen2.5-0.5b': 494_032_768,
      'llama-3.2-1b': 1_235_814_400,
      'gemma-3-270m': 268_098_176,
      'gemma-3-1b': 999_885_952,
    });
  });

  it('take at least 8,192 tokens and have sizes that the kernels support', () => {
    for (const name of presetNames) {
      const { maxModelLen, numHeads, numKvHeads, hiddenSize, vocabSize } = presetArchitecture(name);
      expect(maxModelLen).toBeGreaterThanOrEqual(8192);
      expect([numHeads % numKvHeads, hiddenSize % 4, vocabSize % 4]).toEqual([0, 0, 0]);
    }
  });

  it('are suggested by the nearest name for an unknown model', async () => {
    await expect(loadArchitecture('tinny', null)).rejects.toThrow("did you mean 'tiny'?");
    await expect(loadArchitecture('MODEL', null)).rejects.not.toThrow('did you mean');
    await expect(loadArchitecture('Qwen2.5-0.5', null)).rejects.toThrow("did you mean 'qwen2.5-0.5b'?");
    await expect(loadArchitecture('recal', null)).rejects.toThrow(ModelError);
  });

  it('take precedence over a folder of files', async () => {
    const files = directorySource('models/recall');
    expect((await loadArchitecture('nano', files)).vocabSize).toBe(512);
    expect((await loadArchitecture('recall', files)).vocabSize).toBe(1024);
    const weights = await loadWeights({ name: 'nano', files, dtype: 'f32', seed: 9 });
    const { tokenizer, chat } = await loadTokenizer('nano', files);
    expect([weights.architecture.name, weights.dtype]).toEqual(['nano', 'f32']);
    const messages = [{ role: 'user', content: 'a' }];
    const prompt = await chat.encodePrompt(messages, (text) => tokenizer.encode(text));
    expect(tokenizer.encode('a').length).toBe(prompt.length - 2);
  });
});
