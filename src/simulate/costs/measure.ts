/**
 * What a simulation has to know of this machine, measured on engines that serve nobody else: steps by what they compute and
 * read, READs by bytes, what lies between, and how much engines slow each other down. Medians of repeats, then one fit.
 */

import { FULL_GROUP } from '../../engine/kv-cache-spec.ts';
import type { Cluster } from '../../fleet/types.ts';
import { median } from '../../measure/statistics.ts';
import type { EngineClient } from '../../router/engine-client.ts';
import { Asker } from './asker.ts';
import {
  type Beside,
  decodeShape,
  fitted,
  type HandOver,
  type MeasuredCosts,
  type Point,
  prefillSteps,
} from './fit-measured.ts';

/** Of each point, where nobody says how many. */
export const MEASURED_ROUNDS = 7;

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
