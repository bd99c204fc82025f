/** One engine alone on its own device, in this thread: uncached prompts, and decode steps. */
import { EngineCore } from '../../../engine/engine-core.ts';
import { FULL_GROUP } from '../../../engine/kv-cache-spec.ts';
import { DEFAULT_SAMPLING } from '../../../engine/sampling.ts';
import { ConfigError } from '../../../errors.ts';
import type { GpuDevice } from '../../../gpu/device.ts';
import { formatCount } from '../../../measure/format.ts';
import type { RawSpan } from '../../../measure/spans/spans.ts';
import { type ModelOnDevice, type OnDeviceOptions, putOnDevice } from '../../../model/on-device.ts';
import type { WarmedUp } from '../../../model/runner.ts';
import type { ModelWeights } from '../../../model/types.ts';
import { systemClock } from '../../../platform/clock.ts';
import { nodePlatform } from '../../../platform/node.ts';
import { sumOf } from '../../../sum.ts';

/**
 * Tokens per sequence of a case in a round. Excluded steps: those that prefill, the first one after them, and those after
 * some sequences, which were prefilled earlier, have ended.
 */
const DECODE_STEPS = 32;
const BLOCK_SIZE = 16;

/** Cases: prompt length in tokens, and the number of concurrent prompts. */
export interface DecodeCase {
  context: number;
  sequences: number;
}

/** A decode step in milliseconds: total, time with an idle device, and processor time of the process. */
export interface StepTime {
  ms: number;
  hostMs: number;
  processorMs: number;
}

export interface EngineAlone extends ModelOnDevice {
  core: EngineCore;
  warmedUp: WarmedUp;
  /** Milliseconds so far between submits and their completion. */
  busy: () => number;
  spans: readonly RawSpan[];
  vocabSize: number;
}

export interface AloneOptions extends Pick<OnDeviceOptions, 'fuse' | 'subgroups' | 'driverThreads'> {
  /** Tokens of the longest prefill. */
  promptTokens: number;
  cases: readonly DecodeCase[];
}

/** With room for all cases. Throws AdapterError or ModelError, or ConfigError if the model's context is too short. */
export async function engineAlone(
  weights: ModelWeights,
  { promptTokens, cases, ...own }: AloneOptions,
): Promise<EngineAlone> {
  const { name, vocabSize, maxModelLen } = weights.architecture;
  const longest = longestOf(cases);
  if (maxModelLen < longest)
    throw new ConfigError(
      `${name} goes up to ${formatCount(maxModelLen)} tokens, but ${formatCount(longest)} are measured: give a --model with a longer context, such as tiny`,
    );
  const tokens = sumOf(cases, ({ context, sequences }) => sequences * (context + DECODE_STEPS));
  const numBlocks = 1 + Math.ceil((tokens + 2 * promptTokens) / BLOCK_SIZE) + 16;
  const limits = {
    maxNumBatchedTokens: promptTokens,
    maxNumSeqs: 8,
    maxModelLen: longest,
  };
  const spans: RawSpan[] = [];
  const onDevice = await putOnDevice(nodePlatform, weights, {
    ...own,
    onSpan: (span) => spans.push(span),
    numBlocks,
    kvDtype: 'f16',
    layout: 'contiguous',
    keepLogits: false,
    clock: systemClock,
    limits: { ...limits, blockSize: BLOCK_SIZE },
  });
  const { gpu, runner } = onDevice;
  try {
    const warmedUp = await runner.warmUp();
    const core = new EngineCore({
      clock: systemClock,
      executor: runner,
      connector: null,
      config: {
        engineId: 'engine',
        host: '127.0.0.1',
        port: 0,
        connector: null,
        eosTokenIds: [],
        vocabSize,
        cache: {
          blockSize: BLOCK_SIZE,
          numBlocks,
          enablePrefixCaching: true,
          hashSeed: '0',
          kvDtype: 'f16',
          groups: FULL_GROUP,
          allFullKv: false,
        },
        scheduler: limits,
      },
    });
    return { ...onDevice, core, warmedUp, busy: busyTime(gpu), spans, vocabSize };
  } catch (error) {
    gpu.destroy('the engine could not be warmed up');
    throw error;
  }
}

/** Tokens of the longest case, decoded ones included. */
const longestOf = (cases: readonly DecodeCase[]): number =>
  Math.max(...cases.map(({ context }) => context)) + DECODE_STEPS;

/** Milliseconds of an uncached prompt. */
export async function prefill(
  { core, vocabSize }: EngineAlone,
  tokens: number,
  round: number,
): Promise<number> {
  core.resetPrefixCache();
  add(core, `prefill ${round}`, promptOf(tokens, vocabSize, round), 1);
  const start = systemClock.now();
  while (core.poll()) await core.step();
  return systemClock.now() - start;
}

/** `name`: different in each round. */
export async function decode(
  { core, busy, vocabSize }: Pick<EngineAlone, 'core' | 'busy' | 'vocabSize'>,
  { context, sequences }: DecodeCase,
  name: string,
): Promise<StepTime[]> {
  for (let s = 0; s < sequences; s++) {
    add(core, `${name} ${context} ${s}`, promptOf(context, vocabSize, s), DECODE_STEPS);
  }
  const times: StepTime[] = [];
  const begun = new Set<string>();
  while (core.poll()) {
    const onlyDecodes = begun.size === sequences;
    const [start, busyBefore, processor] = [systemClock.now(), busy(), process.cpuUsage()];
    const outputs = await core.step();
    const ms = systemClock.now() - start;
    const { user, system } = process.cpuUsage(processor);
    for (const { requestId } of outputs) begun.add(requestId);
    if (onlyDecodes && outputs.length === sequences)
      times.push({ ms, hostMs: ms - (busy() - busyBefore), processorMs: (user + system) / 1000 });
  }
  return times.slice(1);
}

/** Greedy answers to concurrent, uncached prompts. */
export interface Answer {
  /** Milliseconds until all prompts have their first token. */
  firstMs: number;
  /** Milliseconds between later tokens of the first prompt. */
  stepMs: number[];
  /** Tokens by prompt. */
  tokens: number[][];
}

/** Records tokens as they arrive. */
export class AnswerTimes {
  readonly #start = systemClock.now();
  readonly #tokens: number[][];
  readonly #stepMs: number[] = [];
  #firstMs: number | null = null;
  #lastMs: number | null = null;

  constructor(prompts: number) {
    this.#tokens = Array.from({ length: prompts }, () => []);
  }

  token(prompt: number, token: number): void {
    this.#tokens[prompt]!.push(token);
    const ms = systemClock.now() - this.#start;
    if (this.#firstMs === null && this.#tokens.every(({ length }) => length > 0)) this.#firstMs = ms;
    if (prompt > 0 || this.#firstMs === null) return;
    if (this.#lastMs !== null) this.#stepMs.push(ms - this.#lastMs);
    this.#lastMs = ms;
  }

  ended(): Answer {
    return { firstMs: this.#firstMs ?? 0, stepMs: this.#stepMs, tokens: this.#tokens };
  }
}

/** `name`: different each time. */
export async function answer(
  { core }: EngineAlone,
  name: string,
  prompts: readonly number[][],
  count: number,
): Promise<Answer> {
  core.resetPrefixCache();
  const times = new AnswerTimes(prompts.length);
  const ids = prompts.map((_, i) => `${name} ${i}`);
  for (const [i, prompt] of prompts.entries()) add(core, ids[i]!, prompt, count);
  while (core.poll()) {
    for (const { requestId, tokens } of await core.step()) {
      for (const { tokenId } of tokens) times.token(ids.indexOf(requestId), tokenId);
    }
  }
  return times.ended();
}

function busyTime(gpu: GpuDevice): () => number {
  const { run } = gpu;
  let total = 0;
  gpu.run = async (...args) => {
    const start = systemClock.now();
    const result = await run.apply(gpu, args);
    total += systemClock.now() - start;
    return result;
  };
  return () => total;
}

export function promptOf(length: number, vocabSize: number, seed: number): number[] {
  return Array.from({ length }, (_, i) => (i * 7919 + 13 + 31 * seed) % vocabSize);
}

function add(core: EngineCore, requestId: string, promptTokenIds: number[], maxTokens: number): void {
  const sampling = { ...DEFAULT_SAMPLING, maxTokens, ignoreEos: true };
  core.addRequest({ requestId, promptTokenIds, sampling, kvTransferParams: null, cacheSalt: null });
}
