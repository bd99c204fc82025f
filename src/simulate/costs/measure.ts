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
/** What engines are at while it is measured how they slow each other: P at prompts, D at answers, so many at least of each. */
const BESIDE = { prompt: 192, prompts: 3, context: 24, answer: 64, answers: 1 };
/** Of a role, at work at once: what more of them do to each other goes on from there. */
const MOST_BESIDE = 3;

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
  /** Each engine alone, then so many P with so many D. */
  readonly #beside: (Beside & { group: readonly EngineClient[] })[];
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
    this.#beside = [...engines.map((engine) => [engine]), ...groupsOf(this.#byRole)].map((group) => ({
      group,
      engines: group.map(({ engineId, role }) => ({ engineId, role, ms: [] })),
    }));
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
      const ms = tokenMs[0]! - queuedMs;
      this.#add({ what, role, steps }, ms, steps.length === 1 ? [ms] : []);
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
      if (counts && gaps.length > 0) this.#add({ what, role, steps }, median(gaps), gaps);
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

  async #measureBeside(counts: boolean): Promise<void> {
    for (const { group, engines } of this.#beside) {
      this.#signal.throwIfAborted();
      const times = await this.#atWork(group);
      if (counts) times.forEach((ms, i) => void engines[i]!.ms.push(ms));
    }
  }

  /**
   * Of each engine, what a prompt of its took, or a token, on average: a median would not see the few that waited long. All are at
   * work until each has done enough; what ends later, with fewer beside it, does not count.
   */
  async #atWork(engines: readonly EngineClient[]): Promise<number[]> {
    let lacking = engines.length;
    return Promise.all(
      engines.map(async (engine) => {
        const decodes = engine.role === 'decode';
        const enough = decodes ? BESIDE.answers : BESIDE.prompts;
        const times: number[] = [];
        try {
          while (lacking > 0) {
            this.#signal.throwIfAborted();
            const ms = await (decodes ? this.#msPerToken(engine) : this.#msOfPrompt(engine));
            if (lacking === 0) break;
            times.push(ms);
            if (times.length === enough) lacking--;
          }
        } catch (error) {
          lacking = 0;
          throw error;
        }
        return mean(times);
      }),
    );
  }

  async #msPerToken(engine: EngineClient): Promise<number> {
    const { tokenMs } = await this.#ask.engine(engine, BESIDE.context, this.#answer);
    return (tokenMs.at(-1)! - tokenMs[0]!) / (tokenMs.length - 1);
  }

  async #msOfPrompt(engine: EngineClient): Promise<number> {
    const prompt = Math.min(BESIDE.prompt, this.#prefills.at(-1)!);
    const { arrivalMs, tokenMs } = await this.#ask.engine(engine, prompt, 1);
    return tokenMs[0]! - arrivalMs;
  }

  #add(point: Omit<Point, 'ms' | 'singleMs'>, ms: number, singleMs: readonly number[]): void {
    const known = this.#points.get(point.what) ?? { ...point, ms: [], singleMs: [] };
    this.#points.set(point.what, known);
    known.ms.push(ms);
    known.singleMs.push(...singleMs);
  }
}

const nameOf = (role: EngineRole): string => (role === 'prefill' ? 'P' : 'D');

/** Two at least, of as many P and D as there can be, and of fewer. */
function groupsOf(byRole: readonly (readonly EngineClient[])[]): EngineClient[][] {
  const [prefills, decodes] = byRole.map((alike) => alike.slice(0, MOST_BESIDE)) as [
    EngineClient[],
    EngineClient[],
  ];
  const groups: EngineClient[][] = [];
  for (let p = 0; p <= prefills.length; p++)
    for (let d = 0; d <= decodes.length; d++)
      if (p + d > 1) groups.push([...prefills.slice(0, p), ...decodes.slice(0, d)]);
  return groups;
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
