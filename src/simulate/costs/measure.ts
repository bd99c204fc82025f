/**
 * What a simulation has to know of this machine, measured on engines that serve nobody else: steps by what they compute and
 * read, READs by bytes, what lies between, and how much engines slow each other down. Medians of repeats, then one fit.
 */

import { mean } from 'simple-statistics';
import { FULL_GROUP } from '../../engine/kv-cache-spec.ts';
import { ConfigError } from '../../errors.ts';
import type { Cluster } from '../../fleet/types.ts';
import { median } from '../../measure/statistics.ts';
import type { EngineClient, EngineRole } from '../../router/engine-client.ts';
import { Asker } from './asker.ts';
import {
  type Beside,
  decodeShape,
  fitted,
  type HandOver,
  type MeasuredCosts,
  type Point,
  prefillSteps,
  ROLES,
} from './fit-measured.ts';

/** Of each point, where nobody says how many. */
export const MEASURED_ROUNDS = 7;

/** Close together where a tile of rows more is a large share of a step. */
const PREFILLS = [8, 16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 384, 768];
const HAND_OVERS = [16, 48, 96, 192, 384, 768];
/** Steps by number are no line, since kernels take rows in groups: each by itself, and what context adds. */
const DECODES: readonly (readonly [requests: number, context: number])[] = [
  ...Array.from({ length: 8 }, (_, i) => [i + 1, 24] as const),
  [1, 384],
  [4, 256],
];
const DECODED = 10;
/** What engines are at while it is measured how they slow each other: P at prompts, one after the other, D at an answer. */
const BESIDE = { prompt: 192, prompts: 3, context: 24, answer: 64 };

/** Measures round by round, so that what is to be compared with it can be measured in between, in the same state. */
export class CostMeter {
  readonly #cluster: Cluster;
  readonly #signal: AbortSignal;
  readonly #ask: Asker;
  readonly #prefills: readonly number[];
  readonly #decodes: typeof DECODES;
  readonly #byRole: readonly (readonly EngineClient[])[];
  readonly #points = new Map<string, Point>();
  readonly #handOvers: HandOver[] = [];
  /** Requests' ways to their engines. */
  readonly #submitMs: number[] = [];
  /** By how many were at work, from 1 on. */
  readonly #beside: Beside[];
  /** P and D in turn, as a fleet that is not fully at work would have them. */
  readonly #mixed: readonly EngineClient[];
  readonly #answer: number;
  #rounds = 0;

  /** Throws ConfigError for engines that have no room for the shortest of what is measured. */
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
    if (this.#decodes.length === 0) {
      const least = DECODES[0]![1] + DECODED + blockSize;
      throw new ConfigError(
        `a request has room for ${room} tokens in these engines, and measuring takes more than ${least}: raise --max-model-len (${maxModelLen}), or --p-blocks and --d-blocks`,
      );
    }
    this.#ask = new Asker(info.model.vocabSize, seed);
    this.#byRole = ROLES.map((role) => engines.filter((engine) => engine.role === role));
    this.#mixed = engines.flatMap((_, i) => this.#byRole.flatMap((alike) => alike[i] ?? []));
    this.#beside = engines.map(() => this.#mixed.map(({ role }) => ({ role, ms: [] })));
    this.#answer = Math.min(BESIDE.answer, room - BESIDE.context - blockSize);
  }

  /** The first one is for what a first step or transfer still sets up, and is not counted. Takes turns with whatever else is served. */
  async round(): Promise<void> {
    const { mode } = this.#cluster;
    await this.#cluster.configure({ mode: 'unidirectional' });
    const counts = this.#rounds > 0;
    for (const alike of this.#byRole) {
      // Each in turn: those of a role are alike.
      const engine = alike[this.#rounds % alike.length];
      if (!engine) continue;
      await this.#measurePrefills(engine, counts);
      await this.#measureDecodes(engine, counts);
    }
    this.#rounds++;
    await this.#measureHandOvers(counts);
    await this.#measureBeside(counts);
    await this.#cluster.configure({ mode });
  }

  costs(): MeasuredCosts {
    return fitted(this.#cluster, [...this.#points.values()], {
      submitMs: this.#submitMs,
      handOvers: this.#handOvers,
      beside: this.#beside,
    });
  }

  async #measurePrefills(engine: EngineClient, counts: boolean): Promise<void> {
    for (const tokens of this.#prefills) {
      this.#signal.throwIfAborted();
      const { arrivalMs, queuedMs, tokenMs } = await this.#ask.engine(engine, tokens, 1);
      const { role } = engine;
      const steps = prefillSteps(tokens, this.#cluster.settings.maxNumBatchedTokens);
      const what = `prefill of ${tokens} on ${nameOf(role)}`;
      if (!counts) continue;
      this.#add({ what, role, steps }, tokenMs[0]! - queuedMs);
      this.#submitMs.push(queuedMs - arrivalMs);
    }
  }

  async #measureDecodes(engine: EngineClient, counts: boolean): Promise<void> {
    for (const [count, context] of this.#decodes) {
      this.#signal.throwIfAborted();
      const asked = Array.from({ length: count }, () => this.#ask.engine(engine, context, DECODED));
      const gaps = gapsTogether((await Promise.all(asked)).map(({ tokenMs }) => tokenMs));
      const { role } = engine;
      const steps = [decodeShape(count, context + DECODED / 2)];
      const what = `${count} decode at ${context} on ${nameOf(role)}`;
      if (counts && gaps.length > 0) this.#add({ what, role, steps }, median(gaps));
    }
  }

  async #measureHandOvers(counts: boolean): Promise<void> {
    for (const tokens of HAND_OVERS) {
      if (!this.#prefills.includes(tokens)) continue;
      this.#signal.throwIfAborted();
      const { ttftMs, transfer } = await this.#ask.cluster(this.#cluster, tokens);
      if (counts && transfer.pToD)
        this.#handOvers.push({ tokens, ttftMs, readMs: transfer.pToD.ms, bytes: transfer.pToD.bytes });
    }
  }

  /** Each engine alone, then so many at once. */
  async #measureBeside(counts: boolean): Promise<void> {
    for (let count = 1; count <= this.#mixed.length; count++) {
      const groups = count === 1 ? this.#mixed.map((_, i) => [i]) : [[...this.#mixed.keys()].slice(0, count)];
      for (const group of groups) {
        this.#signal.throwIfAborted();
        const times = await this.#atWork(group.map((i) => this.#mixed[i]!));
        if (counts) times.forEach((ms, i) => void this.#beside[count - 1]![group[i]!]!.ms.push(ms));
      }
    }
  }

  /**
   * Of each engine, what a prompt of its took, or a token, on average: a median would not see the few that waited long. P goes on
   * for as long as a D does.
   */
  async #atWork(engines: readonly EngineClient[]): Promise<number[]> {
    let answering = engines.filter(({ role }) => role === 'decode').length;
    return Promise.all(
      engines.map(async (engine) => {
        if (engine.role === 'decode') {
          try {
            const { tokenMs } = await this.#ask.engine(engine, BESIDE.context, this.#answer);
            return (tokenMs.at(-1)! - tokenMs[0]!) / (tokenMs.length - 1);
          } finally {
            answering--;
          }
        }
        const times: number[] = [];
        const prompt = Math.min(BESIDE.prompt, this.#prefills.at(-1)!);
        while (times.length < BESIDE.prompts || answering > 0) {
          this.#signal.throwIfAborted();
          const { arrivalMs, tokenMs } = await this.#ask.engine(engine, prompt, 1);
          times.push(tokenMs[0]! - arrivalMs);
        }
        return mean(times);
      }),
    );
  }

  #add(point: Omit<Point, 'ms'>, ms: number): void {
    const known = this.#points.get(point.what) ?? { ...point, ms: [] };
    this.#points.set(point.what, known);
    known.ms.push(ms);
  }
}

const nameOf = (role: EngineRole): string => (role === 'prefill' ? 'P' : 'D');

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
