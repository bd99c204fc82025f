import { describe, expect, it } from 'vitest';
import { ModelError } from '../../src/errors.ts';
import { loadWeights, memorySource } from '../../src/model/load.ts';
import { type Matrix, type ModelWeights, pad4, type WeightDtype } from '../../src/model/types.ts';
import { floatToHalf, halfToFloat } from '../../src/model/weights/half.ts';
import { elementPlace } from '../../src/model/weights/panels.ts';
import type { FileSource } from '../../src/platform/types.ts';
import {
  directory,
  oddConfig,
  oddTensors,
  safetensors,
  type TestTensor,
  type TestTensors,
} from './checkpoint.ts';

const load = (files: FileSource, dtype: WeightDtype = 'f32') =>
  loadWeights({ name: 'odd', files, dtype, seed: 0 });
const layer = 'model.layers.0';

/** Element [row][column] as a number. */
function at(matrix: Matrix, row: number, column: number): number {
  const element = matrix.data[elementPlace(matrix, row, column)]!;
  return matrix.dtype === 'f16' ? halfToFloat(element) : element;
}

function expectTransposed(matrix: Matrix, tensors: TestTensors, names: readonly string[]): void {
  const rows = tensors[names[0]!]!.shape[1]!;
  const columns = names.flatMap((name) => {
    const { shape, values } = tensors[name]!;
    return Array.from({ length: shape[0]! }, (_, n) =>
      Array.from({ length: rows }, (_, k) => values[n * rows + k]!),
    );
  });
  expect([matrix.rows, matrix.columns]).toEqual([rows, columns.length]);
  expect(matrix.data.length).toBe(pad4(rows) * pad4(columns.length));
  for (let row = 0; row < pad4(rows); row++) {
    for (let column = 0; column < pad4(columns.length); column++) {
      expect(at(matrix, row, column)).toBe(row < rows ? (columns[column]?.[row] ?? 0) : 0);
    }
  }
}

describe('a checkpoint', () => {
  it.each([
    ['F32', 'f32'],
    ['F32', 'f16'],
    ['F16', 'f32'],
    ['F16', 'f16'],
    ['BF16', 'f32'],
    ['BF16', 'f16'],
  ] as const)('of %s is loaded as %s: transposed, fused, padded with zeros', async (stored, dtype) => {
    const tensors = oddTensors(stored);
    const weights = await load(directory(oddConfig, tensors), dtype);
    const { qkv, o, gateUp, down, inputNorm, qkvBias, qNorm } = await weights.layer(0);
    expect(qkv.dtype).toBe(dtype);
    expectTransposed(
      qkv,
      tensors,
      ['q', 'k', 'v'].map((p) => `${layer}.self_attn.${p}_proj.weight`),
    );
    expectTransposed(o, tensors, [`${layer}.self_attn.o_proj.weight`]);
    expectTransposed(
      gateUp,
      tensors,
      ['gate', 'up'].map((p) => `${layer}.mlp.${p}_proj.weight`),
    );
    expectTransposed(down, tensors, [`${layer}.mlp.down_proj.weight`]);
    expectTransposed(await weights.embedding(), tensors, ['model.embed_tokens.weight']);
    expect(await weights.lmHead()).toBeNull();
    expect([...inputNorm]).toEqual(tensors[`${layer}.input_layernorm.weight`]!.values);
    expect([...(await weights.finalNorm())]).toEqual(tensors['model.norm.weight']!.values);
    expect([qkvBias, qNorm]).toEqual([null, null]);
  });

  it('has biases, head norms and an LM head if its config says so', async () => {
    const vector = (length: number, start: number) => ({
      shape: [length],
      values: Array.from({ length }, (_, i) => (start + i) / 8),
    });
    const biases = {
      [`${layer}.self_attn.q_proj.bias`]: vector(6, 0),
      [`${layer}.self_attn.k_proj.bias`]: vector(2, 10),
      [`${layer}.self_attn.v_proj.bias`]: vector(2, 20),
      [`${layer}.self_attn.o_proj.bias`]: vector(6, 30),
      [`${layer}.mlp.gate_proj.bias`]: vector(5, 40),
      [`${layer}.mlp.up_proj.bias`]: vector(5, 50),
      [`${layer}.mlp.down_proj.bias`]: vector(6, 60),
    };
    const head = {
      'lm_head.weight': { shape: [7, 6], values: Array.from({ length: 42 }, (_, i) => i / 64) },
    };
    const llama = { ...oddConfig, attention_bias: true, mlp_bias: true, tie_word_embeddings: false };
    const tensors = { ...oddTensors(), ...biases, ...head };
    const weights = await load(directory(llama, tensors));
    const loaded = await weights.layer(0);
    const eighths = (start: number, length: number) => Array.from({ length }, (_, i) => (start + i) / 8);
    expect([...loaded.qkvBias!]).toEqual([...eighths(0, 6), ...eighths(10, 2), ...eighths(20, 2)]);
    expect([...loaded.oBias!]).toEqual(eighths(30, 6));
    expect([...loaded.gateUpBias!]).toEqual([...eighths(40, 5), ...eighths(50, 5)]);
    expect([...loaded.downBias!]).toEqual(eighths(60, 6));
    expectTransposed((await weights.lmHead())!, tensors, ['lm_head.weight']);
    const norms = {
      [`${layer}.self_attn.q_norm.weight`]: vector(2, 1),
      [`${layer}.self_attn.k_norm.weight`]: vector(2, 5),
    };
    const qwen3 = await load(
      directory({ ...oddConfig, architectures: ['Qwen3ForCausalLM'] }, { ...oddTensors(), ...norms }),
    );
    const { qNorm, kNorm } = await qwen3.layer(0);
    expect([...qNorm!, ...kNorm!]).toEqual([1 / 8, 2 / 8, 5 / 8, 6 / 8]);
  });

  it('of Gemma has its four norms, converted from zero-centred values', async () => {
    const gemma = { ...oddConfig, architectures: ['Gemma3ForCausalLM'] };
    const norm = (start: number, length = 6) => ({
      shape: [length],
      values: Array.from({ length }, (_, i) => (start + i) / 8),
    });
    const tensors: TestTensors = {
      ...oddTensors(),
      [`${layer}.input_layernorm.weight`]: norm(0),
      [`${layer}.post_attention_layernorm.weight`]: norm(10),
      [`${layer}.pre_feedforward_layernorm.weight`]: norm(20),
      [`${layer}.post_feedforward_layernorm.weight`]: norm(30),
      [`${layer}.self_attn.q_norm.weight`]: norm(40, 2),
      [`${layer}.self_attn.k_norm.weight`]: norm(50, 2),
      'model.norm.weight': norm(60),
    };
    const plain = (start: number, length = 6) => Array.from({ length }, (_, i) => 1 + (start + i) / 8);
    const expectNorms = async (weights: ModelWeights) => {
      const found = await weights.layer(0);
      expect([...found.inputNorm]).toEqual(plain(0));
      expect([...found.attentionOutNorm!]).toEqual(plain(10));
      expect([...found.mlpNorm]).toEqual(plain(20));
      expect([...found.mlpOutNorm!]).toEqual(plain(30));
      expect([...found.qNorm!, ...found.kNorm!]).toEqual([...plain(40, 2), ...plain(50, 2)]);
      expect([...(await weights.finalNorm())]).toEqual(plain(60));
    };
    await expectNorms(await load(directory(gemma, tensors)));
    // A multimodal model, with the older and the newer tensor names.
    const { architectures: _, ...text } = gemma;
    const sees = { architectures: ['Gemma3ForConditionalGeneration'], text_config: text, eos_token_id: 0 };
    const renamed = (rename: (name: string) => string, other: string) => ({
      ...Object.fromEntries(Object.entries(tensors).map(([name, tensor]) => [rename(name), tensor])),
      [other]: norm(0),
    });
    const older = renamed((name) => `language_model.${name}`, 'vision_tower.norm.weight');
    await expectNorms(await load(directory(sees, older)));
    const newer = renamed(
      (name) => name.replace(/^model\./, 'model.language_model.'),
      'model.multi_modal_projector.norm.weight',
    );
    await expectNorms(await load(directory(sees, newer)));
  });

  it('may consist of shards, which must exist and have plain names', async () => {
    const tensors = oddTensors('F16');
    const names = Object.keys(tensors);
    const shardOf = (name: string) => `model-0000${(names.indexOf(name) % 2) + 1}-of-00002.safetensors`;
    const shard = (file: string) =>
      safetensors(Object.fromEntries(Object.entries(tensors).filter(([name]) => shardOf(name) === file)));
    const files: Record<string, string | Uint8Array> = {
      'config.json': JSON.stringify(oddConfig),
      'model.safetensors.index.json': JSON.stringify({
        metadata: {},
        weight_map: Object.fromEntries(names.map((name) => [name, shardOf(name)])),
      }),
      'model-00001-of-00002.safetensors': shard('model-00001-of-00002.safetensors'),
      'model-00002-of-00002.safetensors': shard('model-00002-of-00002.safetensors'),
    };
    const weights = await load(memorySource('m', files));
    expectTransposed((await weights.layer(0)).down, tensors, [`${layer}.mlp.down_proj.weight`]);
    const { 'model-00002-of-00002.safetensors': _, ...incomplete } = files;
    await expect(load(memorySource('m', incomplete))).rejects.toThrow(
      'm/model-00002-of-00002.safetensors does not exist',
    );
    const elsewhere = {
      ...files,
      'model.safetensors.index.json': JSON.stringify({ weight_map: { x: '../x' } }),
    };
    await expect(load(memorySource('m', elsewhere))).rejects.toThrow(
      "names the shard '../x': wanted a plain file name",
    );
  });

  it('is rounded to the nearest f16, and values that f16 cannot hold are refused with the tensor name', async () => {
    const name = `${layer}.mlp.down_proj.weight`;
    const change = (value: number): TestTensors => {
      const tensors = oddTensors();
      const values = Array.from({ length: 30 }, () => value);
      return { ...tensors, [name]: { shape: [6, 5], values } };
    };
    const { down } = await (await load(directory(oddConfig, change(0.1)), 'f16')).layer(0);
    expect(at(down, 0, 0)).toBe(halfToFloat(floatToHalf(Math.fround(0.1))));
    const large = await load(directory(oddConfig, change(70_000)), 'f16');
    await expect(large.layer(0)).rejects.toThrow(
      /down_proj.weight has the value 70000, beyond what f16 holds/,
    );
    await expect((await load(directory(oddConfig, change(70_000)))).layer(0)).resolves.toBeDefined();
    const broken = await load(directory(oddConfig, change(Number.NaN)));
    await expect(broken.layer(0)).rejects.toThrow(
      /down_proj.weight has the value NaN: wanted finite numbers/,
    );
  });

  it.each([
    [
      'a tensor is missing',
      { 'model.norm.weight': null },
      {},
      /has no tensor model.norm.weight, which its config.json requires/,
    ],
    ['the LM head is missing', {}, { tie_word_embeddings: false }, /has no tensor lm_head.weight/],
    [
      'a shape differs',
      { 'model.norm.weight': { shape: [5], values: [1, 2, 3, 4, 5] } },
      {},
      /model.norm.weight has shape \[5\], wanted \[6\]/,
    ],
    [
      'config and shapes differ',
      {},
      { vocab_size: 8 },
      /embed_tokens.weight has shape \[7, 6\], wanted \[8, 6\]/,
    ],
    [
      'a tensor has no place',
      { 'model.layers.0.self_attn.q_proj.bias': { shape: [1], values: [1] } },
      {},
      /q_proj.bias has no place in the model/,
    ],
  ])('is refused when %s', async (_, change, config, message) => {
    const tensors = Object.fromEntries(
      Object.entries({ ...oddTensors(), ...(change as TestTensors) }).filter(([, tensor]) => tensor !== null),
    );
    const error = await load(directory({ ...oddConfig, ...config }, tensors)).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(ModelError);
    expect((error as Error).message).toMatch(message);
  });

  it('is refused without weights', async () => {
    const files = memorySource('m', { 'config.json': JSON.stringify(oddConfig) });
    await expect(load(files)).rejects.toThrow(
      'm has neither model.safetensors nor model.safetensors.index.json',
    );
  });

  it('may carry a tied LM head, which is refused if it differs from the embedding', async () => {
    const tensors = oddTensors();
    const { shape, values } = tensors['model.embed_tokens.weight']!;
    const withHead = (head: TestTensor) => load(directory(oddConfig, { ...tensors, 'lm_head.weight': head }));
    expect(await (await withHead({ shape, values })).lmHead()).toBeNull();
    const last = Array.from(values, (value, i) => (i === 41 ? value + 1 : value));
    const others: TestTensor[] = [
      { shape, values: last },
      { shape: [6, 7], values },
      { shape, values, dtype: 'BF16' },
    ];
    for (const head of others)
      await expect(withHead(head)).rejects.toThrow(
        'tensor lm_head.weight differs from model.embed_tokens.weight, but tie_word_embeddings is true: set it to false in config.json, or remove the tensor',
      );
  });
});
