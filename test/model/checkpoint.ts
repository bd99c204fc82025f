/** Small synthetic checkpoints in memory. */

import { memorySource } from '../../src/model/load.ts';
import { floatToHalf } from '../../src/model/weights/half.ts';
import type { FileSource } from '../../src/platform/types.ts';

export interface TestTensor {
  shape: number[];
  values: ArrayLike<number>;
  dtype?: 'F32' | 'F16' | 'BF16';
}

export type TestTensors = Record<string, TestTensor>;

function encode({ values, dtype = 'F32' }: TestTensor): Uint8Array {
  if (dtype === 'F32') return new Uint8Array(Float32Array.from(values).buffer);
  const bits = new Uint32Array(Float32Array.from(values).buffer);
  const halves = Uint16Array.from(values, (value, i) =>
    dtype === 'F16' ? floatToHalf(value) : bits[i]! >>> 16,
  );
  return new Uint8Array(halves.buffer);
}

/** A safetensors file of the given header and data, whether they match or not. */
export function rawSafetensors(header: string, data: Uint8Array): Uint8Array {
  const text = new TextEncoder().encode(header);
  const file = new Uint8Array(8 + text.length + data.length);
  new DataView(file.buffer).setBigUint64(0, BigInt(text.length), true);
  file.set(text, 8);
  file.set(data, 8 + text.length);
  return file;
}

export function safetensors(tensors: TestTensors): Uint8Array {
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  const parts: number[] = [];
  for (const [name, tensor] of Object.entries(tensors)) {
    const begin = parts.length;
    for (const byte of encode(tensor)) parts.push(byte);
    header[name] = { dtype: tensor.dtype ?? 'F32', shape: tensor.shape, data_offsets: [begin, parts.length] };
  }
  return rawSafetensors(JSON.stringify(header), Uint8Array.from(parts));
}

/** hidden 6, one layer, 3 heads over 1 KV head of 2 dimensions, ffn 5, vocabulary 7: no size is a multiple of 4. */
export const oddConfig = {
  architectures: ['LlamaForCausalLM'],
  model_type: 'llama',
  hidden_size: 6,
  num_hidden_layers: 1,
  num_attention_heads: 3,
  num_key_value_heads: 1,
  head_dim: 2,
  intermediate_size: 5,
  vocab_size: 7,
  max_position_embeddings: 32,
  rms_norm_eps: 1e-5,
  rope_theta: 10_000,
  tie_word_embeddings: true,
  eos_token_id: 0,
};

/** Shapes of an oddConfig checkpoint without biases. */
const oddShapes: Record<string, number[]> = {
  'model.embed_tokens.weight': [7, 6],
  'model.norm.weight': [6],
  'model.layers.0.input_layernorm.weight': [6],
  'model.layers.0.self_attn.q_proj.weight': [6, 6],
  'model.layers.0.self_attn.k_proj.weight': [2, 6],
  'model.layers.0.self_attn.v_proj.weight': [2, 6],
  'model.layers.0.self_attn.o_proj.weight': [6, 6],
  'model.layers.0.post_attention_layernorm.weight': [6],
  'model.layers.0.mlp.gate_proj.weight': [5, 6],
  'model.layers.0.mlp.up_proj.weight': [5, 6],
  'model.layers.0.mlp.down_proj.weight': [6, 5],
};

/** Every tensor is filled by its place in the list and the element index; values are exact in f16 and bf16. */
export function oddTensors(dtype: TestTensor['dtype'] = 'F32'): TestTensors {
  return Object.fromEntries(
    Object.entries(oddShapes).map(([name, shape], tensor) => {
      const length = shape.reduce((product, n) => product * n, 1);
      const values = Array.from({ length }, (_, i) => (((tensor * 37 + i * 11) % 64) - 32) / 64);
      return [name, { shape, values, dtype: dtype ?? 'F32' }];
    }),
  );
}

export function directory(
  config: object,
  tensors: TestTensors,
  more: Record<string, string | Uint8Array> = {},
): FileSource {
  return memorySource('memory/odd', {
    'config.json': JSON.stringify(config),
    'model.safetensors': safetensors(tensors),
    ...more,
  });
}
