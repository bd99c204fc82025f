/**
 * Check (e): compares a fixture folder's model on this adapter, with f32 weights and KV, with the logits, keys and values that
 * Hugging Face computed. Also checks that the chunk sizes of prefill do not change a bit.
 */
import type { Arithmetic } from '../../config/arithmetic.ts';
import { ConfigError } from '../../errors.ts';
import { loadWeights } from '../../model/load.ts';
import {
  compareFixture,
  FIXTURE_TOLERANCE,
  type FixtureResult,
  type FixtureRun,
} from '../../model/oracle/fixture.ts';
import type { FileSource, Platform } from '../../platform/types.ts';
import { GpuModel } from './gpu-model.ts';
import { firstDifference, headValues, kvLayout, type Plane, type SequenceBlocks } from './kv-layout.ts';
import type { CheckProvider, CheckResult } from './types.ts';

const BLOCK_SIZE = 16;
/** Tokens per chunk, repeated; irregular, and not multiples of a tile. */
const ODD_CHUNKS = [7, 1, 33, 18, 5];

export interface FixtureFinding {
  result: FixtureResult;
  /** Where one chunk, or odd chunks, first differ in bits from one token at a time; null: nowhere. */
  chunkDifference: string | null;
}

const WANTED = 'give one with config.json, model.safetensors, expected.json and expected.safetensors';

export function fixtureChecks(platform: Platform): CheckProvider {
  return async ({ config }) => {
    const folder = config.fixture;
    if (folder === null) return [];
    const files = await platform.openModel(folder);
    if (!files) {
      throw new ConfigError(`--fixture is '${folder}', but there is no such directory: ${WANTED}`);
    }
    for (const name of ['config.json', 'expected.json', 'expected.safetensors']) {
      if ((await files.size(name)) !== null) continue;
      throw new ConfigError(`--fixture is '${folder}', but there is no ${name} in it: ${WANTED}`);
    }
    return [
      {
        group: 'e',
        name: folder,
        run: async (say, signal) => judge(await checkFixture(platform, files, say, signal)),
      },
    ];
  };
}

/** Throws ModelError if the folder is incomplete. */
export async function checkFixture(
  platform: Platform,
  files: FileSource,
  say: (what: string) => void,
  signal: AbortSignal,
  arithmetic: Arithmetic = 'f32',
): Promise<FixtureFinding> {
  let chunkDifference: string | null = null;
  const result = await compareFixture(files, async (tokenIds) => {
    say('loading the model');
    const weights = await loadWeights({ name: files.location, files, dtype: 'f32', seed: 0 });
    const blocks = Math.ceil(tokenIds.length / BLOCK_SIZE);
    const model = await GpuModel.open(platform, weights, {
      kvDtype: 'f32',
      arithmetic,
      blockSize: BLOCK_SIZE,
      numBlocks: 1 + 3 * blocks,
      maxModelLen: tokenIds.length,
    });
    try {
      const run = async (way: number, what: string, chunks: readonly number[]): Promise<Computed> => {
        say(what);
        const blockIds = Array.from({ length: blocks }, (_, i) => 1 + way + 3 * i);
        return computeInChunks(model, tokenIds, chunks, blockIds, signal);
      };
      const single = await run(0, 'one token at a time', [1]);
      const unchunked = await run(1, 'all at once', [tokenIds.length]);
      const odd = await run(2, 'in odd chunks', ODD_CHUNKS);
      chunkDifference =
        difference(model, 'one chunk', unchunked, single, tokenIds.length) ??
        difference(model, `chunks of ${ODD_CHUNKS.join(', ')}`, odd, single, tokenIds.length);
      return fixtureRun(model, single, tokenIds.length);
    } finally {
      model.close();
    }
  });
  return { result, chunkDifference };
}

interface Computed {
  /** By position of a chunk's last token. */
  rows: ReadonlyMap<number, { digest: string; logits: Float32Array }>;
  blocks: SequenceBlocks;
}

async function computeInChunks(
  model: GpuModel,
  tokenIds: readonly number[],
  chunks: readonly number[],
  blockIds: readonly number[],
  signal: AbortSignal,
): Promise<Computed> {
  const rows = new Map<number, { digest: string; logits: Float32Array }>();
  for (let start = 0, turn = 0; start < tokenIds.length; turn++) {
    signal.throwIfAborted();
    const chunk = tokenIds.slice(start, start + chunks[turn % chunks.length]!);
    const { logits, logitsDigest } = await model.feed(chunk, start, blockIds);
    start += chunk.length;
    rows.set(start - 1, { digest: logitsDigest, logits: logits! });
  }
  return { rows, blocks: await model.readBlocks(blockIds) };
}

function difference(
  { architecture, options }: GpuModel,
  what: string,
  a: Computed,
  single: Computed,
  length: number,
): string | null {
  for (const [position, { digest, logits }] of a.rows) {
    const expected = single.rows.get(position)!;
    const same = digest === expected.digest && logits.every((logit, i) => logit === expected.logits[i]);
    if (!same) return `${what}: logits after token ${position}`;
  }
  const layout = kvLayout(architecture, options.blockSize, options.kvDtype);
  const all = ({ blocks }: Computed) => ({ blocks, from: new Array<number>(layout.numLayers).fill(0) });
  const kv = firstDifference(layout, all(a), all(single), length);
  return kv && `${what}: KV of ${kv}`;
}

function fixtureRun(
  { architecture, options }: GpuModel,
  { rows, blocks }: Computed,
  length: number,
): FixtureRun {
  const { numLayers, numKvHeads, headDim } = architecture;
  const layout = kvLayout(architecture, options.blockSize, options.kvDtype);
  const planes = (plane: Plane): Float32Array[] =>
    Array.from({ length: numLayers }, (_, layer) => {
      const all = new Float32Array(numKvHeads * length * headDim);
      for (let head = 0; head < numKvHeads; head++) {
        all.set(headValues(layout, blocks, { layer, plane, head }, length), head * length * headDim);
      }
      return all;
    });
  return {
    logits: Array.from({ length }, (_, position) => rows.get(position)!.logits),
    keys: planes('key'),
    values: planes('value'),
  };
}

function judge({ result, chunkDifference }: FixtureFinding): CheckResult {
  const { maxLogitDifference, maxKvDifference, greedyDifference, greedyTokens, promptTokens } = result;
  const greedy = greedyDifference
    ? `greedy token ${greedyDifference.index + 1} is ${greedyDifference.found}, not ${greedyDifference.expected}`
    : `all ${greedyTokens} greedy tokens agree`;
  const chunks = chunkDifference
    ? `different bits from one token at a time: ${chunkDifference}`
    : 'the same bits one token at a time, all at once and in odd chunks';
  return {
    ok: result.passed && chunkDifference === null,
    detail:
      `${promptTokens} prompt tokens: max |Δlogit| ${maxLogitDifference.toExponential(1)}, max |ΔKV| ` +
      `${maxKvDifference.toExponential(1)} (at most ${FIXTURE_TOLERANCE}); ${greedy}; ${chunks}`,
  };
}
