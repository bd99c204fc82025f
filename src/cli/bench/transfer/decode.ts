/** What a pull costs the holder: D decodes while P reads blocks from it; D's steps are timed by their outputs. */
import { DEFAULT_SAMPLING } from '../../../engine/sampling.ts';
import { fromWire, type KvferryError, TransferError } from '../../../errors.ts';
import type { ThreadEngine } from '../../../fleet/thread-engine.ts';
import { measureCopyRate } from '../../../lab/copy-rates.ts';
import { formatBytes, formatInterval, formatMs } from '../../../measure/format.ts';
import { median, quantile } from '../../../measure/statistics.ts';
import { systemClock } from '../../../platform/clock.ts';
import { right } from '../../../report/document.ts';
import { DEFAULT_CHUNK_BYTES } from '../../../transport/chunks.ts';
import type { BlockPair } from '../../../transport/types.ts';
import { plainStyle, renderTable } from '../../output/table.ts';
import { halfMs } from './stages.ts';

export interface ConcurrentDecode {
  sequences: number;
  bytes: number;
  pulls: ConcurrentPull[];
  /** Milliseconds of the holder's stages alone for the same blocks, from some copies after each round. */
  holderMs: number[];
}

/** Milliseconds. */
export interface ConcurrentPull {
  pullMs: number;
  /** Durations of steps that overlap the pull. */
  overlappingMs: number[];
  /** Durations of steps of the same requests just before and after it. */
  quietMs: number[];
}

interface PullPlan {
  bytes: number;
  rounds: number;
  sequences: number;
}

const PROMPT_TOKENS = 64;
/** Pulls per round, one after another. Each overlaps few steps, whose noise is as large as its cost, so many are needed. */
const PULLS_A_ROUND = 8;
/** Steps to wait before a pull begins, and after it has ended. */
const QUIET_STEPS = 12;
/** Copies of the holder's stages alone, after each round. */
const ALONE_ROUNDS = 3;
/** Tokens of a request, enough to keep decoding during all pulls of a round. */
const MOST_TOKENS = 400;
const TOO_SLOW = `D generated ${MOST_TOKENS} tokens before ${PULLS_A_ROUND} concurrent pulls had finished: pulls are too slow for its steps`;
/** The first steps after a prefill are not decode steps, or are slowed by it. */
const SETTLING_STEPS = 3;

/** Leaves the engines ready to serve. */
export async function measureConcurrentDecode(
  reader: ThreadEngine,
  holder: ThreadEngine,
  numBlocks: number,
  { bytes, rounds, sequences }: PullPlan,
): Promise<ConcurrentDecode> {
  const count = Math.min(numBlocks - 1, Math.round(bytes / holder.started.blockBytes));
  const pairs: BlockPair[] = Array.from({ length: count }, (_, i) => ({
    group: 0,
    remote: i + 1,
    local: i + 1,
  }));
  await holder.lab.serveAnyBlock();
  const pulls: ConcurrentPull[] = [];
  const holderMs: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const steps = new Steps(holder);
    await steps.begin(sequences, `decode-${sequences}-${round}`);
    await steps.more(SETTLING_STEPS);
    for (let pull = 0; pull < PULLS_A_ROUND; pull++) {
      const first = steps.count;
      await steps.more(QUIET_STEPS);
      const startMs = systemClock.now();
      const moved = await reader.lab.measureRead(holder.address, pairs);
      const endMs = systemClock.now();
      if (moved.outcome !== 'done') throw new TransferError(`the pull during decode: ${moved.message}`);
      await steps.more(QUIET_STEPS + 1);
      pulls.push({ pullMs: moved.wallMs, ...stepsAround(steps.since(first), startMs, endMs) });
    }
    await steps.end();
    holderMs.push(...(await holderAlone(reader, holder, numBlocks, bytes)));
  }
  return { sequences, bytes: count * holder.started.blockBytes, pulls, holderMs };
}

async function holderAlone(
  reader: ThreadEngine,
  holder: ThreadEngine,
  numBlocks: number,
  bytes: number,
): Promise<number[]> {
  const copy = { bytes, chunkBytes: DEFAULT_CHUNK_BYTES, rounds: ALONE_ROUNDS };
  const rate = await measureCopyRate(holder, reader, numBlocks, copy);
  return rate.alone.out.map(halfMs);
}

/** Decode steps of one engine, timed by their outputs. */
class Steps {
  readonly #engine: ThreadEngine;
  readonly #atMs: number[] = [];
  #requestIds: string[] = [];
  #sequences = 0;
  /** Why no more steps will come. */
  #failure: KvferryError | null = null;
  #wake: () => void = () => {};
  #stop: () => void = () => {};

  constructor(engine: ThreadEngine) {
    this.#engine = engine;
  }

  async begin(sequences: number, name: string): Promise<void> {
    this.#sequences = sequences;
    this.#stop = this.#engine.onEvent((event) => {
      if (event.kind === 'dead') this.#failure = fromWire(event.error);
      if (event.kind === 'outputs') {
        if (event.outputs.some(({ finish }) => finish)) this.#failure = new TransferError(TOO_SLOW);
        // In a step with fewer outputs a prompt was still being computed.
        if (event.outputs.length >= this.#sequences) this.#atMs.push(event.atMs);
      }
      this.#wake();
    });
    const promptTokenIds = Array.from({ length: PROMPT_TOKENS }, (_, i) => 8 + ((i * 37) % 400));
    this.#requestIds = Array.from({ length: sequences }, (_, i) => `${name}-${i}`);
    for (const requestId of this.#requestIds) {
      await this.#engine.submit({
        requestId,
        promptTokenIds,
        kvTransferParams: null,
        cacheSalt: null,
        sampling: { ...DEFAULT_SAMPLING, maxTokens: MOST_TOKENS, ignoreEos: true },
      });
    }
  }

  get count(): number {
    return this.#atMs.length;
  }

  /** Resolves after that many more steps. Throws if the requests or the engine end before. */
  async more(steps: number): Promise<void> {
    const target = this.#atMs.length + steps;
    while (this.#atMs.length < target) {
      if (this.#failure) throw this.#failure;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  async end(): Promise<void> {
    for (const requestId of this.#requestIds) await this.#engine.abort(requestId);
    this.#stop();
    await this.#engine.serving.drain();
  }

  /** When each step ended, from step `first` on. */
  since(first: number): number[] {
    return this.#atMs.slice(first);
  }
}

/** Splits steps, given by their end times, into those that overlap [startMs, endMs] and the others. */
export function stepsAround(
  endsMs: readonly number[],
  startMs: number,
  endMs: number,
): { overlappingMs: number[]; quietMs: number[] } {
  const overlappingMs: number[] = [];
  const quietMs: number[] = [];
  for (let i = 1; i < endsMs.length; i++) {
    const from = endsMs[i - 1]!;
    const to = endsMs[i]!;
    (to > startMs && from < endMs ? overlappingMs : quietMs).push(to - from);
  }
  return { overlappingMs, quietMs };
}

/** Milliseconds that overlapping steps took in addition to the same number of undisturbed steps around them. */
export function delayMs({ overlappingMs, quietMs }: ConcurrentPull): number {
  const quiet = median(quietMs);
  return overlappingMs.reduce((sum, ms) => sum + ms - quiet, 0);
}

/** Relative slowdown of an overlapping step compared with an undisturbed one: 0.2 is a fifth. */
export function slowDown(pull: ConcurrentPull): number {
  return delayMs(pull) / (pull.overlappingMs.length * median(pull.quietMs));
}

export function decodeLines(measured: readonly ConcurrentDecode[], software: boolean): string[] {
  const columns = [
    ...right('decoding', 'pull ms', 'step ms', 'steps', 'slower by', 'delay ms', 'holder alone', 'ratio'),
  ];
  // Independent of what was decoded.
  const alone = median(measured.flatMap(({ holderMs }) => holderMs));
  const rows = measured.map(({ sequences, pulls }) => {
    const of = (value: (pull: ConcurrentPull) => number): number => median(pulls.map(value));
    const delays = pulls.map(delayMs);
    const delay = { value: median(delays), low: quantile(delays, 0.25), high: quantile(delays, 0.75) };
    return [
      String(sequences),
      formatMs(of(({ pullMs }) => pullMs)),
      formatMs(of(({ quietMs }) => median(quietMs))),
      of(({ overlappingMs }) => overlappingMs.length).toFixed(0),
      `${Math.round(of(slowDown) * 100)}%`,
      formatInterval(delay, formatMs),
      formatMs(alone),
      (delay.value / alone).toFixed(2),
    ];
  });
  const { bytes, pulls } = measured[0]!;
  const meant = software ? ' (wanted: at most 1.5 of them)' : ' (wanted: steps at most 20% slower)';
  return [
    `D decodes while P pulls ${formatBytes(bytes)} from it: D's delay over the whole pull,`,
    `compared with the holder’s stages alone${meant}`,
    `medians of ${pulls.length} pulls [of the delay: quartiles]`,
    ...renderTable(columns, rows, plainStyle),
  ];
}
