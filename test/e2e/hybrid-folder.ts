/** Checkpoint folders of small sliding-window models: a fixture's weights with other layer types, windows and depths. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadArchitecture } from '../../src/model/load.ts';
import { presetTokenizerFiles } from '../../src/model/text/preset-tokenizer.ts';
import type { Architecture } from '../../src/model/types.ts';
import { directorySource } from '../../src/platform/node/files.ts';
import { rawSafetensors } from '../model/checkpoint.ts';

/** A checkpoint of seven layers. */
const FROM = 'test/fixtures/hf/gemma3-hybrid';

/** Every id below this is in the vocabulary. */
export const IDS = 300;

export interface HybridFolder {
  path: string;
  architecture: Architecture;
  remove(): Promise<void>;
}

/** `fullLayers`: for each layer (at most seven), whether it has full attention. */
export async function hybridFolder(fullLayers: readonly boolean[], window = 32): Promise<HybridFolder> {
  const path = await mkdtemp(join(tmpdir(), 'kvferry-hybrid-'));
  const config = JSON.parse(await readFile(`${FROM}/config.json`, 'utf8'));
  delete config.sliding_window_pattern;
  delete config._sliding_window_pattern;
  config.layer_types = fullLayers.map((full) => (full ? 'full_attention' : 'sliding_attention'));
  config.num_hidden_layers = fullLayers.length;
  config.sliding_window = window;
  await writeFile(join(path, 'config.json'), JSON.stringify(config));
  await writeFile(join(path, 'tokenizer.json'), tokenizerOf(config.vocab_size));
  const weights = firstLayers(await readFile(`${FROM}/model.safetensors`), fullLayers.length);
  await writeFile(join(path, 'model.safetensors'), weights);
  const architecture = await loadArchitecture(path, directorySource(path));
  return { path, architecture, remove: () => rm(path, { recursive: true }) };
}

/** The safetensors file without the tensors of later layers. */
function firstLayers(file: Buffer, layers: number): Uint8Array {
  const headerEnd = 8 + Number(file.readBigUInt64LE(0));
  const header: Record<string, { data_offsets: [number, number] }> = JSON.parse(
    file.toString('utf8', 8, headerEnd),
  );
  const parts: Buffer[] = [];
  let bytes = 0;
  const kept = Object.entries(header).flatMap(([name, tensor]) => {
    const layer = /^model\.layers\.(\d+)\./.exec(name);
    if (name === '__metadata__') return [[name, tensor] as const];
    if (layer && Number(layer[1]) >= layers) return [];
    const [begin, end] = tensor.data_offsets;
    parts.push(file.subarray(headerEnd + begin, headerEnd + end));
    const data_offsets = [bytes, bytes + end - begin];
    bytes += end - begin;
    return [[name, { ...tensor, data_offsets }] as const];
  });
  return rawSafetensors(JSON.stringify(Object.fromEntries(kept)), Buffer.concat(parts));
}

/** A preset's tokenizer without the ids that the model lacks. */
function tokenizerOf(vocabSize: number): string {
  const json = JSON.parse(presetTokenizerFiles('nano')['tokenizer.json']!);
  const entries = Object.entries<number>(json.model.vocab).filter(([, id]) => id < vocabSize);
  const vocab = Object.fromEntries(entries);
  const joined = (merge: string | [string, string]) =>
    Array.isArray(merge) ? merge.join('') : merge.replace(' ', '');
  const merges = json.model.merges.filter((merge: string | [string, string]) => joined(merge) in vocab);
  return JSON.stringify({ ...json, model: { ...json.model, vocab, merges } });
}
