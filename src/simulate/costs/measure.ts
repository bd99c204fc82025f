/**
 * What a simulation has to know of this machine, measured on engines that serve nobody else: steps by what they compute and
 * read, READs by bytes, what lies between, and how much engines slow each other down. Medians of repeats, then one fit.
 */

import { FULL_GROUP } from '../../engine/kv-cache-spec.ts';
import { DEFAULT_SAMPLING } from '../../engine/sampling.ts';
import { InternalError } from '../../errors.ts';
import type { Cluster } from '../../fleet/types.ts';
import { type Fit, fitNonNegative } from '../../measure/least-squares.ts';
import { median } from '../../measure/statistics.ts';
import type { EngineClient } from '../../router/engine-client.ts';
import { LOWEST_TOKEN_ID } from '../../workload/made.ts';
import { Random } from '../../workload/random.ts';
import { linearCosts, type SimulationCostsFile } from './linear.ts';
import { type StepShape, shapeOf } from './types.ts';

export interface MeasuredCosts {
  file: SimulationCostsFile;
  points: number;
  /** Of the fit of steps: median and largest error, as a share of what was measured, and where the largest was. */
  medianError: number;
  worst: { what: string; error: number };
}

/** Of each point, where nobody says how many. */
export const MEASURED_ROUNDS = 7;

/** One thing that was measured, so often as there were rounds. */
interface Point {
  what: string;
  /** Steps that its time is the sum of. */
  steps: readonly StepShape[];
  /** Whether a request's way to its engine is part of it. */
  submits: 0 | 1;
  ms: number[];
}

interface HandOver {
  tokens: number;
  ttftMs: number;
  readMs: number;
  bytes: number;
}

/** Of so many engines at once. */
interface Beside {
  gap: number[];
  ttft: number[];
}

const PREFILLS = [16, 48, 96, 192, 384, 768];
const DECODES: readonly (readonly [requests: number, context: number])[] = [
  [1, 24],
  [1, 384],
  [2, 128],
  [4, 24],
  [4, 256],
  [8, 64],
];
const DECODED = 16;
/** What the runner cuts a step into, so that copies get in between. */
const PIECE_MS = 30;

/** Measures round by round, so that what is to be compared with it can be measured in between, in the same state. */
export class CostMeter {
  readonly #cluster: Cluster;
  readonly #signal: AbortSignal;
  readonly #ask: Asker;
  readonly #prefills: readonly number[];
  readonly #decodes: typeof DECODES;
  readonly #points = new Map<string, Point>();
  readonly #handOvers: HandOver[] = [];
  readonly #beside: Beside[];
  #rounds = 0;

  constructor(cluster: Cluster, { seed, signal }: { seed: number; signal: AbortSignal }) {
    this.#cluster = cluster;
    this.#signal = signal;
    const { settings, engines, info } = cluster;
    const { maxModelLen, prefill, decode, blockSize, maxNumSeqs, kvCacheGroups = FULL_GROUP } = settings;
    // Windows are not counted.
    const perGroup = Math.floor((Math.min(prefill.numBlocks, decode.numBlocks) - 1) / kvCacheGroups.length);
    const room = Math.min(maxModelLen, perGroup * blockSize);
    this.#prefills = PREFILLS.filter((tokens) => tokens + DECODED < room);
    this.#decodes = DECODES.filter(
      ([n, context]) => n <= maxNumSeqs && n * (context + DECODED + blockSize) < room,
    );
    this.#ask = new Asker(info.model.vocabSize, seed);
    this.#beside = engines.map(() => ({ gap: [], ttft: [] }));
  }

  /** The first one is for what a first step or transfer still sets up, and is not counted. Takes turns with whatever else is served. */
  async round(): Promise<void> {
    const { mode } = this.#cluster;
    await this.#cluster.configure({ mode: 'unidirectional' });
    const counts = this.#rounds > 0;
    // Each engine in turn: they are all alike.
    const { engines } = this.#cluster;
    const engine = engines[this.#rounds % engines.length]!;
    this.#rounds++;
    await this.#measurePrefills(engine, counts);
    await this.#measureDecodes(engine, counts);
    await this.#measureHandOvers(counts);
    await this.#measureBeside(counts);
    await this.#cluster.configure({ mode });
  }

  costs(): MeasuredCosts {
    return fitted(this.#cluster, [...this.#points.values()], this.#handOvers, this.#beside);
  }

  async #measurePrefills(engine: EngineClient, counts: boolean): Promise<void> {
    for (const tokens of this.#prefills) {
      this.#signal.throwIfAborted();
      const { arrivalMs, tokenMs } = await this.#ask.engine(engine, tokens, 1);
      const steps = prefillSteps(tokens, this.#cluster.settings.maxNumBatchedTokens);
      if (counts) this.#add({ what: `prefill of ${tokens}`, steps, submits: 1 }, tokenMs[0]! - arrivalMs);
    }
  }

  async #measureDecodes(engine: EngineClient, counts: boolean): Promise<void> {
    for (const [count, context] of this.#decodes) {
      this.#signal.throwIfAborted();
      const asked = Array.from({ length: count }, () => this.#ask.engine(engine, context, DECODED));
      const gaps = gapsTogether((await Promise.all(asked)).map(({ tokenMs }) => tokenMs));
      const steps = [decodeShape(count, context + DECODED / 2)];
      if (counts && gaps.length > 0)
        this.#add({ what: `${count} decode at ${context}`, steps, submits: 0 }, median(gaps));
    }
  }

  async #measureHandOvers(counts: boolean): Promise<void> {
    for (const tokens of this.#prefills) {
      this.#signal.throwIfAborted();
      const { ttftMs, transfer } = await this.#ask.cluster(this.#cluster, tokens);
      if (counts && transfer.pToD)
        this.#handOvers.push({ tokens, ttftMs, readMs: transfer.pToD.ms, bytes: transfer.pToD.bytes });
    }
  }

  async #measureBeside(counts: boolean): Promise<void> {
    const { engines } = this.#cluster;
    for (let count = 1; count <= engines.length; count++) {
      this.#signal.throwIfAborted();
      const longest = this.#prefills.at(-1)!;
      const some = engines.slice(0, count);
      const answers = await Promise.all(some.map((each) => this.#ask.engine(each, longest, DECODED)));
      if (!counts) continue;
      const { gap, ttft } = this.#beside[count - 1]!;
      ttft.push(...answers.map(({ arrivalMs, tokenMs }) => tokenMs[0]! - arrivalMs));
      gap.push(...gapsTogether(answers.map(({ tokenMs }) => tokenMs)));
    }
  }

  #add(point: Omit<Point, 'ms'>, ms: number): void {
    const known = this.#points.get(point.what) ?? { ...point, ms: [] };
    this.#points.set(point.what, known);
    known.ms.push(ms);
  }
}

function fitted(
  { info, settings, engines }: Cluster,
  points: readonly Point[],
  handOvers: readonly HandOver[],
  beside: readonly Beside[],
): MeasuredCosts {
  const rows = points.map(({ steps, submits }) => [...featuresOf(steps), submits]);
  const values = points.map(({ ms }) => Math.max(1e-3, median(ms)));
  const fit = fitNonNegative(rows, values);
  const [fixed, token, context, decodes, decodeContext, submit] = fit.coefficients as Coefficients;
  const read = fitNonNegative(
    handOvers.map(({ bytes }) => [1, bytes]),
    handOvers.map(({ readMs }) => Math.max(1e-3, readMs)),
  );
  const [readFixed, readPerByte] = read.coefficients as [number, number];
  const file: SimulationCostsFile = {
    kvferry_simulation_costs: 1,
    name: `${info.model.name} on ${info.adapter.name}`,
    source: 'measured',
    model: settings.model,
    about: `${points.length + handOvers.length} points, ${engines.length} engines of ${info.model.name}, at most ${settings.maxNumBatchedTokens} rows a step`,
    step: {
      fixed_ms: fixed,
      ms_per_prefill: 0,
      ms_per_prefill_token: token,
      ms_per_prefill_context: context,
      ms_per_decode: decodes,
      ms_per_decode_context: decodeContext,
    },
    read: { fixed_ms: readFixed, ms_per_byte: readPerByte },
    submit_ms: submit,
    reply_ms: 0,
    message_ms: 0,
    piece_ms: PIECE_MS,
    start_ms: info.startMs,
    speeds: speedsOf(beside),
  };
  file.reply_ms = replyMs(file, handOvers, settings.maxNumBatchedTokens);
  return {
    file,
    points: points.length + handOvers.length,
    medianError: fit.medianError,
    worst: worstOf(points, fit, rows),
  };
}

type Coefficients = [number, number, number, number, number, number];

const featuresOf = (steps: readonly StepShape[]): number[] => {
  const sum = (value: (shape: StepShape) => number) =>
    steps.reduce((total, shape) => total + value(shape), 0);
  return [
    steps.length,
    sum(({ prefillTokens }) => prefillTokens),
    sum(({ prefillContext }) => prefillContext),
    sum(({ decodes }) => decodes),
    sum(({ decodeContext }) => decodeContext),
  ];
};

function worstOf(
  points: readonly Point[],
  { coefficients }: Fit,
  rows: readonly number[][],
): MeasuredCosts['worst'] {
  const errors = points.map(({ what, ms }, i) => {
    const predicted = rows[i]!.reduce((sum, value, j) => sum + value * coefficients[j]!, 0);
    return { what, error: predicted / median(ms) - 1 };
  });
  return errors.reduce((worst, each) => (Math.abs(each.error) > Math.abs(worst.error) ? each : worst));
}

/** What is left of a hand-over's TTFT without both engines' steps, both requests' ways and the READ: P's answer's way to the router. */
function replyMs(
  file: SimulationCostsFile,
  handOvers: readonly HandOver[],
  maxNumBatchedTokens: number,
): number {
  const costs = linearCosts(file);
  const place = { poolTokens: 1, maxNumSeqs: 1 };
  const left = handOvers.map(({ tokens, ttftMs, readMs }) => {
    const steps = [...prefillSteps(tokens, maxNumBatchedTokens), decodeShape(1, tokens - 1)];
    const stepsMs = steps.reduce((sum, shape) => sum + costs.stepMs(shape, place), 0);
    return ttftMs - stepsMs - 2 * costs.submitMs - readMs;
  });
  return Math.max(0, median(left));
}

/** Of one beside so many others, against one alone: the mean of what prefills and decode steps show. */
function speedsOf(beside: readonly Beside[]): number[] {
  const [alone] = beside;
  let least = 1;
  return beside.map(({ gap, ttft }) => {
    const share = (median(alone!.gap) / median(gap) + median(alone!.ttft) / median(ttft)) / 2;
    least = Math.min(least, Number.isFinite(share) ? share : 1);
    return least;
  });
}

/** A prompt that nothing is known of, as the scheduler cuts it. */
function prefillSteps(tokens: number, maxNumBatchedTokens: number): StepShape[] {
  const steps: StepShape[] = [];
  for (let start = 0; start < tokens; start += maxNumBatchedTokens) {
    const length = Math.min(maxNumBatchedTokens, tokens - start);
    const request = { startPosition: start, tokenIds: Array.from({ length }, () => 0) };
    steps.push(shapeOf({ step: 0, requests: [{ ...request, requestId: '', blockIds: [], sample: null }] }));
  }
  return steps;
}

const decodeShape = (count: number, context: number): StepShape => {
  return { decodes: count, decodeContext: count * context, prefills: 0, prefillTokens: 0, prefillContext: 0 };
};

/** Between neighbouring tokens, while all are decoding. */
function gapsTogether(answers: readonly (readonly number[])[]): number[] {
  const fromMs = Math.max(...answers.map((tokenMs) => tokenMs[0]!));
  const untilMs = Math.min(...answers.map((tokenMs) => tokenMs.at(-1)!));
  return answers.flatMap((tokenMs) =>
    tokenMs.flatMap((ms, i) => {
      const before = tokenMs[i - 1];
      return before !== undefined && before >= fromMs && ms <= untilMs ? [ms - before] : [];
    }),
  );
}

/** Requests that nobody has seen before. */
class Asker {
  readonly #random: Random;
  readonly #vocabSize: number;
  #asked = 0;

  constructor(vocabSize: number, seed: number) {
    this.#vocabSize = vocabSize;
    this.#random = new Random(seed ^ 0x2545f491);
  }

  /** One engine alone, which sends and pulls nothing. */
  async engine(engine: EngineClient, tokens: number, maxTokens: number) {
    const requestId = `measured-${++this.#asked}`;
    const sampling = { ...DEFAULT_SAMPLING, maxTokens, ignoreEos: true };
    const prompt = { promptTokenIds: this.#prompt(tokens), kvTransferParams: null, cacheSalt: null };
    const stream = await engine.submit({ requestId, sampling, ...prompt });
    const tokenMs: number[] = [];
    let arrivalMs = 0;
    for await (const { output, atMs } of stream) {
      arrivalMs = output.times.arrivalMs;
      for (const _token of output.tokens) tokenMs.push(atMs);
    }
    return { arrivalMs, tokenMs };
  }

  async cluster(cluster: Cluster, tokens: number) {
    const conversationId = `measured-${++this.#asked}`;
    const sampling = { maxTokens: 1, ignoreEos: true, temperature: 0 };
    const promptTokenIds = this.#prompt(tokens);
    for await (const { final } of cluster.generate({ conversationId, promptTokenIds, sampling })) {
      if (!final) continue;
      await cluster.endConversation(conversationId);
      return final;
    }
    throw new InternalError('a turn ended without a result');
  }

  #prompt(tokens: number): number[] {
    return Array.from({ length: tokens }, () => this.#random.int(LOWEST_TOKEN_ID, this.#vocabSize - 1));
  }
}
