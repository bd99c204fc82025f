/**
 * Compares an implementation of a model with a fixture folder: a Hugging Face directory with expected.json (prompt and
 * greedy tokens) and expected.safetensors (logits, keys and values of the prompt, as computed by Hugging Face).
 */
import { z } from 'zod';
import { ModelError } from '../../errors.ts';
import type { FileSource } from '../../platform/types.ts';
import { readArchitecture } from '../architecture/architecture.ts';
import { pathOf, requireJson } from '../architecture/json-file.ts';
import { windowOf } from '../architecture/layer-attention.ts';
import type { Architecture } from '../types.ts';
import { SafetensorsFile } from '../weights/safetensors.ts';
import { argmax } from './oracle.ts';

/** Largest difference of a logit that passes, with f32 weights and KV. */
export const FIXTURE_TOLERANCE = 2e-3;

type Floats = Float32Array | Float64Array;

/** An implementation's results for a list of tokens, starting from an empty cache. */
export interface FixtureRun {
  /** One row per token, [vocabSize]. */
  logits: readonly Floats[];
  /** By layer, [kvHeads][tokens][headDim]; keys after RoPE. */
  keys: readonly Floats[];
  values: readonly Floats[];
}

export interface FixtureResult {
  name: string;
  promptTokens: number;
  /** Greedy tokens compared. */
  greedyTokens: number;
  maxLogitDifference: number;
  maxKvDifference: number;
  /** The first greedy token that differs; null if all agree. */
  greedyDifference: { index: number; expected: number; found: number } | null;
  /** Logits and KV are within FIXTURE_TOLERANCE, and all greedy tokens agree. */
  passed: boolean;
}

const expectedSchema = z.looseObject({
  prompt_token_ids: z.array(z.int().nonnegative()).min(1),
  greedy_token_ids: z.array(z.int().nonnegative()),
});

/**
 * Calls `run` once, with the prompt and all expected greedy tokens but the last. Greedy decoding agrees if and only if
 * the highest logit after each position is the next expected token. Throws ModelError if the folder is incomplete.
 */
export async function compareFixture(
  files: FileSource,
  run: (tokenIds: readonly number[]) => Promise<FixtureRun>,
): Promise<FixtureResult> {
  const architecture = await readArchitecture(files);
  const { prompt_token_ids: prompt, greedy_token_ids: greedy } = await requireJson(
    files,
    'expected.json',
    expectedSchema,
  );
  const tokenIds = [...prompt, ...greedy.slice(0, -1)];
  checkIds([...prompt, ...greedy], architecture, pathOf(files, 'expected.json'));
  const expected = await SafetensorsFile.open(files, 'expected.safetensors');
  const found = await run(tokenIds);
  const maxLogitDifference = await compareLogits(expected, found, prompt.length, architecture.vocabSize);
  const maxKvDifference = await compareKv(expected, found, prompt.length, tokenIds.length, architecture);
  const best = greedy.map((_, index) => argmax(found.logits[prompt.length - 1 + index]!));
  const index = best.findIndex((token, i) => token !== greedy[i]);
  const greedyDifference = index < 0 ? null : { index, expected: greedy[index]!, found: best[index]! };
  return {
    name: architecture.name,
    promptTokens: prompt.length,
    greedyTokens: greedy.length,
    maxLogitDifference,
    maxKvDifference,
    greedyDifference,
    passed:
      maxLogitDifference <= FIXTURE_TOLERANCE &&
      maxKvDifference <= FIXTURE_TOLERANCE &&
      greedyDifference === null,
  };
}

function checkIds(tokenIds: readonly number[], { vocabSize }: Architecture, where: string): void {
  const bad = tokenIds.find((id) => id >= vocabSize);
  if (bad !== undefined)
    throw new ModelError(`${where}: token id ${bad} is outside the vocabulary of ${vocabSize}`);
}

async function compareLogits(
  expected: SafetensorsFile,
  found: FixtureRun,
  rows: number,
  vocabSize: number,
): Promise<number> {
  const values = await readShaped(expected, 'logits', [rows, vocabSize]);
  let max = 0;
  for (let row = 0; row < rows; row++) {
    for (let i = 0; i < vocabSize; i++) {
      max = larger(max, values[row * vocabSize + i]! - found.logits[row]![i]!);
    }
  }
  return max;
}

async function compareKv(
  expected: SafetensorsFile,
  found: FixtureRun,
  promptTokens: number,
  tokens: number,
  architecture: Architecture,
): Promise<number> {
  const { numLayers, numKvHeads, headDim } = architecture;
  let max = 0;
  for (let layer = 0; layer < numLayers; layer++) {
    for (const [name, actual] of [
      [`key.${layer}`, found.keys[layer]!],
      [`value.${layer}`, found.values[layer]!],
    ] as const) {
      const kept = keptTokens(expected, name, promptTokens, windowOf(architecture, layer));
      const values = await readShaped(expected, name, [numKvHeads, kept, headDim]);
      for (let head = 0; head < numKvHeads; head++) {
        const from = (head * tokens + promptTokens - kept) * headDim;
        for (let i = 0; i < kept * headDim; i++) {
          max = larger(max, values[head * kept * headDim + i]! - actual[from + i]!);
        }
      }
    }
  }
  return max;
}

/** For a layer with a window, Hugging Face may keep only the last tokens, those the next token sees. */
function keptTokens(expected: SafetensorsFile, name: string, promptTokens: number, window: number): number {
  const kept = expected.tensor(name).shape[1];
  return kept === Math.min(window - 1, promptTokens) ? kept : promptTokens;
}

/** NaN, as from a missing value, counts as an infinite difference. */
const larger = (max: number, difference: number): number =>
  Number.isNaN(difference) ? Number.POSITIVE_INFINITY : Math.max(max, Math.abs(difference));

async function readShaped(
  file: SafetensorsFile,
  name: string,
  shape: readonly number[],
): Promise<Float32Array> {
  const found = file.tensor(name).shape;
  if (found.join() === shape.join()) return file.readFloats(name);
  throw new ModelError(
    `${file.path}: tensor ${name} has shape [${found.join(', ')}], wanted [${shape.join(', ')}]`,
  );
}
