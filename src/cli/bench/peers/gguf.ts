/**
 * Writes a Llama-shaped model as a GGUF file (version 3, github.com/ggml-org/ggml, docs/gguf.md), with the same f16 values
 * that our engines use. For the comparison with llama.cpp: the vocabulary is a placeholder, because only token ids matter.
 */
import { closeSync, openSync, writeSync } from 'node:fs';
import { bytesOf } from '../../../copy-bytes.ts';
import { ConfigError } from '../../../errors.ts';
import { roundUp } from '../../../gpu/buffer-size.ts';
import type { Architecture, Matrix, ModelWeights } from '../../../model/types.ts';
import { elementPlace } from '../../../model/weights/panels.ts';

const TYPES = { u32: 4, f32: 6, string: 8, array: 9, i32: 5 } as const;
const [F32, F16, ALIGNMENT] = [0, 1, 32];
/** Token types: 1 is a normal token, 3 a control token, 6 a byte. */
const [NORMAL, CONTROL, BYTE] = [1, 3, 6];
const CONTROLS = 3;

interface Tensor {
  name: string;
  /** Dimensions, innermost first. */
  dims: number[];
  data: Uint16Array | Float32Array;
}

/** Throws ConfigError for a model of another shape, for which llama.cpp uses other tensor names. */
export async function writeGguf(file: string, weights: ModelWeights): Promise<void> {
  const { architecture } = weights;
  checkShape(architecture, weights.dtype);
  const tensors = await tensorsOf(weights);
  const head = [Buffer.from('GGUF'), words(3), long(tensors.length), ...keyValues(architecture)];
  let offset = 0;
  for (const { name, dims, data } of tensors) {
    head.push(text(name), words(dims.length), ...dims.map(long));
    head.push(words(data instanceof Float32Array ? F32 : F16), long(offset));
    offset += aligned(data.byteLength);
  }
  const out = openSync(file, 'w');
  try {
    const header = Buffer.concat(head);
    writeSync(out, header);
    writeSync(out, Buffer.alloc(aligned(header.length) - header.length));
    for (const { data } of tensors) {
      writeSync(out, bytesOf(data));
      writeSync(out, Buffer.alloc(aligned(data.byteLength) - data.byteLength));
    }
  } finally {
    closeSync(out);
  }
}

function checkShape(a: Architecture, dtype: string): void {
  const other =
    a.qkNorm ||
    a.outputNorms ||
    a.mlpBias ||
    a.oBias ||
    a.qkvBias ||
    a.ropeScaling !== null ||
    a.activation !== 'silu';
  if (other || dtype !== 'f16' || a.attention.some(({ kind }) => kind !== 'full'))
    throw new ConfigError(`${a.name} does not have Llama's plain shape in f16`);
}

async function tensorsOf(weights: ModelWeights): Promise<Tensor[]> {
  const { numLayers, numHeads, numKvHeads, headDim, intermediateSize } = weights.architecture;
  const vector = (name: string, data: Float32Array): Tensor => ({ name, dims: [data.length], data });
  const matrix = (name: string, source: Matrix, columns?: readonly number[]): Tensor => {
    const wanted = columns ?? range(0, source.columns);
    return { name, dims: [source.rows, wanted.length], data: transposed(source, wanted) };
  };
  const tensors: Tensor[] = [
    matrix('token_embd.weight', await weights.embedding()),
    vector('output_norm.weight', await weights.finalNorm()),
  ];
  const lmHead = await weights.lmHead();
  if (lmHead) tensors.push(matrix('output.weight', lmHead));
  const [q, kv] = [numHeads * headDim, numKvHeads * headDim];
  for (let index = 0; index < numLayers; index++) {
    const layer = await weights.layer(index);
    const name = (what: string) => `blk.${index}.${what}.weight`;
    tensors.push(
      vector(name('attn_norm'), layer.inputNorm),
      matrix(name('attn_q'), layer.qkv, interleaved(range(0, q), headDim)),
      matrix(name('attn_k'), layer.qkv, interleaved(range(q, q + kv), headDim)),
      matrix(name('attn_v'), layer.qkv, range(q + kv, q + 2 * kv)),
      matrix(name('attn_output'), layer.o),
      vector(name('ffn_norm'), layer.mlpNorm),
      matrix(name('ffn_gate'), layer.gateUp, range(0, intermediateSize)),
      matrix(name('ffn_up'), layer.gateUp, range(intermediateSize, 2 * intermediateSize)),
      matrix(name('ffn_down'), layer.down),
    );
  }
  return tensors;
}

/** Permutes the columns of q or k: llama.cpp rotates adjacent elements, kvferry halves of a head. */
function interleaved(columns: readonly number[], headDim: number): number[] {
  return columns.map((_, at) => {
    const [head, i] = [Math.floor(at / headDim), at % headDim];
    return columns[head * headDim + Math.floor(i / 2) + (i % 2) * (headDim / 2)]!;
  });
}

/** [columns][rows]. */
function transposed({ rows, columns: all, data }: Matrix, columns: readonly number[]): Uint16Array {
  const out = new Uint16Array(rows * columns.length);
  columns.forEach((column, at) => {
    for (let row = 0; row < rows; row++)
      out[at * rows + row] = data[elementPlace({ rows, columns: all }, row, column)]!;
  });
  return out;
}

function keyValues(a: Architecture): Buffer[] {
  const ids = range(0, a.vocabSize);
  const kindOf = (id: number) => (id < CONTROLS ? CONTROL : id < CONTROLS + 256 ? BYTE : NORMAL);
  const nameOf = (id: number) => {
    const byte = (id - CONTROLS).toString(16).toUpperCase().padStart(2, '0');
    return kindOf(id) === BYTE ? `<0x${byte}>` : `<t${id}>`;
  };
  const string = (key: string, value: string) => [text(key), words(TYPES.string), text(value)];
  const u32 = (key: string, value: number) => [text(key), words(TYPES.u32), words(value)];
  const f32 = (key: string, value: number) => [text(key), words(TYPES.f32), floats(value)];
  const array = (key: string, type: number, items: Buffer[]) => [
    ...[text(key), words(TYPES.array), words(type), long(items.length), ...items],
  ];
  const all = [
    string('general.architecture', 'llama'),
    string('general.name', a.name),
    u32('general.alignment', ALIGNMENT),
    u32('llama.context_length', a.maxModelLen),
    u32('llama.embedding_length', a.hiddenSize),
    u32('llama.block_count', a.numLayers),
    u32('llama.feed_forward_length', a.intermediateSize),
    u32('llama.attention.head_count', a.numHeads),
    u32('llama.attention.head_count_kv', a.numKvHeads),
    u32('llama.attention.key_length', a.headDim),
    u32('llama.attention.value_length', a.headDim),
    u32('llama.rope.dimension_count', a.headDim),
    u32('llama.vocab_size', a.vocabSize),
    f32('llama.attention.layer_norm_rms_epsilon', a.rmsNormEps),
    f32('llama.rope.freq_base', a.ropeTheta),
    string('tokenizer.ggml.model', 'llama'),
    array(
      'tokenizer.ggml.tokens',
      TYPES.string,
      ids.map((id) => text(nameOf(id))),
    ),
    array(
      'tokenizer.ggml.scores',
      TYPES.f32,
      ids.map(() => floats(0)),
    ),
    array(
      'tokenizer.ggml.token_type',
      TYPES.i32,
      ids.map((id) => words(kindOf(id))),
    ),
    u32('tokenizer.ggml.unknown_token_id', 0),
    u32('tokenizer.ggml.bos_token_id', 1),
    u32('tokenizer.ggml.eos_token_id', 2),
  ];
  return [long(all.length), ...all.flat()];
}

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);
const aligned = (bytes: number): number => roundUp(bytes, ALIGNMENT);
const words = (value: number): Buffer => Buffer.from(Uint32Array.of(value).buffer);
const floats = (value: number): Buffer => Buffer.from(Float32Array.of(value).buffer);
const long = (value: number): Buffer => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
const text = (value: string): Buffer => Buffer.concat([long(Buffer.byteLength(value)), Buffer.from(value)]);
