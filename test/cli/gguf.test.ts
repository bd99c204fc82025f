/** The GGUF file written for llama.cpp, read back by the rules of the format. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { writeGguf } from '../../src/cli/bench/peers/gguf.ts';
import { ConfigError } from '../../src/errors.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { elementPlace } from '../../src/model/weights/panels.ts';
import { SeededWeights } from '../../src/model/weights/seeded-weights.ts';

const folder = mkdtempSync(path.join(os.tmpdir(), 'gguf-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Reads the parts of a GGUF file that the tests check. */
function readGguf(bytes: Buffer) {
  let at = 0;
  const pass = (count: number): number => {
    at += count;
    return at - count;
  };
  const u32 = () => bytes.readUInt32LE(pass(4));
  const u64 = () => Number(bytes.readBigUInt64LE(pass(8)));
  const text = () => {
    const length = u64();
    const from = pass(length);
    return bytes.toString('utf8', from, from + length);
  };
  const value = (type: number): unknown => {
    if (type === 6) return bytes.readFloatLE(pass(4));
    if (type === 8) return text();
    if (type !== 9) return u32();
    const [of, count] = [u32(), u64()];
    return Array.from({ length: count }, () => value(of));
  };
  const magic = bytes.toString('latin1', pass(4), 4);
  const [version, tensorCount, pairs] = [u32(), u64(), u64()];
  const metadata = Object.fromEntries(Array.from({ length: pairs }, () => [text(), value(u32())]));
  const tensors = Array.from({ length: tensorCount }, () => ({
    name: text(),
    dims: Array.from({ length: u32() }, u64),
    type: u32(),
    offset: u64(),
  }));
  return { magic, version, metadata, tensors, data: bytes.subarray(Math.ceil(at / 32) * 32) };
}

it('a GGUF file holds every weight where llama.cpp expects it, with adjacent pairs in q and k', async () => {
  const architecture = presetArchitecture('nano');
  const weights = new SeededWeights(architecture, 0, 'f16');
  const file = path.join(folder, 'nano.gguf');
  await writeGguf(file, weights);
  const { magic, version, metadata, tensors, data } = readGguf(readFileSync(file));
  expect([magic, version]).toEqual(['GGUF', 3]);
  expect(metadata).toMatchObject({
    'general.architecture': 'llama',
    'llama.block_count': architecture.numLayers,
    'llama.attention.head_count_kv': architecture.numKvHeads,
    'llama.rope.freq_base': architecture.ropeTheta,
  });
  expect(metadata['tokenizer.ggml.tokens']).toHaveLength(architecture.vocabSize);
  expect(tensors).toHaveLength(2 + 9 * architecture.numLayers);
  const layer = await weights.layer(1);
  const { hiddenSize: k, headDim, numHeads } = architecture;
  const halves = (name: string) => {
    const { dims, type, offset } = tensors.find((tensor) => tensor.name === name)!;
    expect(type).toBe(1);
    const bytes = data.subarray(offset, offset + 2 * dims[0]! * dims[1]!);
    return { dims, values: new Uint16Array(Uint8Array.from(bytes).buffer) };
  };
  const column = ({ rows, columns, data: from }: typeof layer.qkv, n: number) =>
    Array.from({ length: k }, (_, row) => from[elementPlace({ rows, columns }, row, n)]!);
  const q = halves('blk.1.attn_q.weight');
  expect(q.dims).toEqual([k, numHeads * headDim]);
  // The second head's third pair: its rows 4 and 5 in the file, its columns 2 and 2 + half a head here.
  for (const [there, here] of [
    [headDim + 4, headDim + 2],
    [headDim + 5, headDim + 2 + headDim / 2],
  ] as const)
    expect([...q.values.subarray(there * k, (there + 1) * k)]).toEqual(column(layer.qkv, here));
  const up = halves('blk.1.ffn_up.weight');
  expect([...up.values.subarray(7 * k, 8 * k)]).toEqual(
    column(layer.gateUp, architecture.intermediateSize + 7),
  );
  const last = tensors.at(-1)!;
  expect(data.length).toBeGreaterThanOrEqual(last.offset + 2 * last.dims[0]! * last.dims[1]!);
});

it('writing a GGUF file refuses a model with q and k norms', async () => {
  const weights = new SeededWeights({ ...presetArchitecture('nano'), qkNorm: true }, 0, 'f16');
  await expect(writeGguf(path.join(folder, 'no.gguf'), weights)).rejects.toThrow(ConfigError);
});
