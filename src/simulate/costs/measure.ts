/**
 * Measures what a simulation has to know of this machine, on engines that serve nothing else: steps by what they
 * compute and read, READs by bytes, the time in between, and contention. Measures in repeated rounds, then fits once.
 */

import { mean } from 'simple-statistics';
import { cacheGroups } from '../../engine/kv-cache-spec.ts';
import { ConfigError } from '../../errors.ts';
import { pairPool, smallestPool } from '../../fleet/options.ts';
import type { Cluster } from '../../fleet/types.ts';
import type { EngineClient, EngineRole } from '../../router/engine-client.ts';
import { sumOf } from '../../sum.ts';
import { ContentionMeter } from './contention.ts';
import { fitted, type MeasuredCosts, type MeasuredHandover, type Point, ROLES } from './fit-measured.ts';
import { MeasuringRequests, TokenCounts } from './measuring-requests.ts';
import { ReadMeter } from './overlapping-reads.ts';
import { decodeShape, mixedShape, prefillSteps } from './shapes.ts';

/** Default number of rounds. They are short, since a shared machine is faster and then slower for many seconds. */
export const MEASURED_ROUNDS = 14;
/** Rounds in which everything is measured once. */
export const LEAST_ROUNDS = 2;

/** Prompt lengths, close together where one more tile of rows is a large share of a step. */
const PREFILLS = [8, 16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 384, 768];
/** Later turns: rows computed after a cached prefix. */
const FOUND: readonly (readonly [found: number, rows: readonly number[]])[] = [
  [256, [8, 32, 48]],
  [448, [8, 32, 48]],
];
const HANDOVER_LENGTHS = [16, 48, 96, 192, 384, 768];
type Decodes = readonly [requests: number, context: number];
/** Context of decoding requests at first, tokens. */
const DECODING = 24;
const at24 = (requests: number): Decodes => [requests, DECODING];
/**
 * Decode steps by number of requests lie on no line, since kernels take rows in groups: each number is measured, and
 * what context adds. These decide the times of most tokens.
 */
const FEW_DECODES: readonly Decodes[] = [...[1, 2, 3].map(at24), [1, 384], [2, 384], [4, 256]];
const MORE_DECODES: readonly Decodes[] = [4, 5, 6, 7, 8].map(at24);
const DECODED = 16;
/** Prompts that arrive at an engine whose requests decode: number of those, and rows of the prompt. */
const MIXED: readonly (readonly [decodes: number, rows: number])[] = [
  [2, 16],
  [2, 48],
  [5, 16],
  [5, 48],
];
/** Tokens of those answers, in the middle of which the prompt arrives. */
const MIXED_DECODED = 6;

/** Measures round by round, so that what is compared with it can run in between, in the same state of the machine. */
export class CostMeter {
  readonly #cluster: Cluster;
  readonly #signal: AbortSignal;
  readonly #requests: MeasuringRequests;
  readonly #prefills: readonly number[];
  readonly #handoverLengths: readonly number[];
  readonly #fits: (decodes: Decodes) => boolean;
  readonly #byRole: readonly (readonly EngineClient[])[];
  readonly #points = new Map<string, Point>();
  readonly #handovers: MeasuredHandover[] = [];
  /** Times of requests on their way to their engines. */
  readonly #submitMs: number[] = [];
  readonly #contention: ContentionMeter;
  readonly #reads: ReadMeter;
  readonly #room: number;
  #rounds = 0;

  /** Throws ConfigError if the engines have no room for the shortest measurement. */
  constructor(cluster: Cluster, { seed, signal }: { seed: number; signal: AbortSignal }) {
    this.#cluster = cluster;
    this.#signal = signal;
    const { settings, engines, info } = cluster;
    const { maxModelLen, blockSize, maxNumSeqs } = settings;
    // Sliding windows are not taken into account.
    const perGroup = Math.floor((smallestPool(settings) - 1) / cacheGroups(settings).length);
    const room = Math.min(maxModelLen, perGroup * blockSize);
    this.#prefills = PREFILLS.filter((tokens) => tokens + DECODED < room);
    this.#fits = ([n, context]) => n <= maxNumSeqs && n * (context + DECODED + blockSize) < room;
    if (!this.#fits(FEW_DECODES[0]!)) {
      const least = FEW_DECODES[0]![1] + DECODED + blockSize;
      throw new ConfigError(
        `a request has room for ${room} tokens in these engines, and measuring needs more than ${least}: raise --max-model-len (${maxModelLen}), or --p-blocks and --d-blocks`,
      );
    }
    this.#handoverLengths = HANDOVER_LENGTHS.filter(
      (tokens) => this.#prefills.includes(tokens) && pairPool(tokens, settings) !== null,
    );
    if (this.#handoverLengths.length === 0) {
      throw new ConfigError(
        `measuring hands prompts of ${HANDOVER_LENGTHS.join(', ')} tokens from P to D, and the fleet has no P and D that take one of them: widen the promptTokens of a roleset with P and D, or add such a roleset`,
      );
    }
    this.#requests = new MeasuringRequests(info.model.vocabSize, seed);
    this.#byRole = ROLES.map((role) => engines.filter((engine) => engine.role === role));
    const [prefills = [], decodes = []] = this.#byRole;
    const meterDeps = { requests: this.#requests, signal, room: room - blockSize };
    this.#contention = new ContentionMeter({ prefill: prefills, decode: decodes }, meterDeps);
    this.#reads = new ReadMeter(decodes, { ...meterDeps, cluster });
    this.#room = room;
  }

  /**
   * The first round does not count: it pays for what a first step or transfer sets up. Do not call it while anything
   * else is served.
   */
  async round(): Promise<void> {
    const { mode, settings } = this.#cluster;
    const { handover, connector, store } = settings;
    // A READ is measured alone: a streamed one takes as long as P's prefill, and a store would replace it.
    const alone = {
      handover: 'pull' as const,
      ...(store && { connector: { name: 'NixlConnector' as const } }),
    };
    const asBefore = { mode, handover, ...(store && { connector: { name: connector.name } }) };
    await this.#cluster.configure({ mode: 'unidirectional', ...alone });
    try {
      await this.#measure();
    } catch (error) {
      // The cluster may have failed; its own error says more.
      await this.#cluster.configure(asBefore).catch(() => {});
      throw error;
    }
    await this.#cluster.configure(asBefore);
  }

  async #measure(): Promise<void> {
    const counts = this.#rounds > 0;
    for (const alike of this.#byRole) {
      // Engines of a role are alike: they take turns, each for two rounds, which measure everything together.
      const engine = alike[Math.floor(this.#rounds / 2) % alike.length];
      if (!engine) continue;
      await this.#measurePrefills(engine, counts);
      await this.#measureFound(engine, counts);
      await this.#measureDecodes(engine, counts);
      await this.#measureMixed(engine, counts);
    }
    await this.#measureHandovers(counts);
    await this.#contention.round(counts);
    await this.#reads.round(counts);
    this.#rounds++;
  }

  costs(): MeasuredCosts {
    return fitted(this.#cluster, [...this.#points.values()], {
      submitMs: this.#submitMs,
      handovers: this.#handovers,
      concurrent: this.#contention.groups,
      overlappingReads: this.#reads,
    });
  }

  async #measurePrefills(engine: EngineClient, counts: boolean): Promise<void> {
    // Not counted: the first prompt after another engine's work takes up to a third longer, and would always be the
    // shortest one.
    await this.#requests.toEngine(engine, this.#prefills[0]!, 1);
    for (const tokens of this.#inTurn(this.#prefills)) {
      this.#signal.throwIfAborted();
      const { arrivalMs, queuedMs, tokenMs } = await this.#requests.toEngine(engine, tokens, 1);
      const { role } = engine;
      const steps = prefillSteps(tokens, this.#cluster.settings.maxNumBatchedTokens);
      const what = `prefill of ${tokens} on ${nameOf(role)}`;
      if (!counts) continue;
      const ms = tokenMs[0]! - queuedMs;
      this.#add({ what, role, steps }, ms, steps.length === 1 ? [[ms]] : []);
      this.#submitMs.push(queuedMs - arrivalMs);
    }
  }

  /** Measures nothing on engines that keep no prefixes. */
  async #measureFound(engine: EngineClient, counts: boolean): Promise<void> {
    const { role } = engine;
    const { maxNumBatchedTokens } = this.#cluster.settings;
    for (const [length, allRows] of this.#inTurn(FOUND)) {
      if (length + Math.max(...allRows) + DECODED >= this.#room) continue;
      const before = this.#requests.prompt(length);
      await this.#requests.toEngine(engine, 1, 1, before);
      for (const rows of allRows) {
        this.#signal.throwIfAborted();
        const { queuedMs, tokenMs, found } = await this.#requests.toEngine(engine, rows, 1, before);
        if (found === 0) return;
        const steps = prefillSteps(length + rows, maxNumBatchedTokens, found);
        const what = `prefill of ${length + rows - found} after ${found} on ${nameOf(role)}`;
        const ms = tokenMs[0]! - queuedMs;
        if (counts && steps.length === 1) this.#add({ what, role, steps }, ms, [[ms]]);
      }
    }
  }

  async #measureDecodes(engine: EngineClient, counts: boolean): Promise<void> {
    const decodes = [...FEW_DECODES, ...this.#inTurn(MORE_DECODES)].filter(this.#fits);
    for (const [count, context] of decodes) {
      this.#signal.throwIfAborted();
      const pending = Array.from({ length: count }, () => this.#requests.toEngine(engine, context, DECODED));
      const gaps = gapsTogether((await Promise.all(pending)).map(({ tokenMs }) => tokenMs));
      const { role } = engine;
      const steps = [decodeShape(count, context + DECODED / 2)];
      const what = `${count} decode at ${context} on ${nameOf(role)}`;
      if (counts && gaps.length > 0) this.#add({ what, role, steps }, mean(gaps), [gaps]);
    }
  }

  /** Steps with prompts and decoding requests: from the tokens before the prompt's token to those that came with it. */
  async #measureMixed(engine: EngineClient, counts: boolean): Promise<void> {
    const { role } = engine;
    for (const [count, rows] of this.#inTurn(MIXED)) {
      if (!this.#fits([count + 2, DECODING])) continue;
      this.#signal.throwIfAborted();
      const tokenCounts = new TokenCounts(count);
      const allDecode = tokenCounts.more(1);
      const answers = Array.from({ length: count }, (_, i) =>
        this.#requests.toEngine(engine, DECODING, MIXED_DECODED, [], (tokens) =>
          tokenCounts.update(i, tokens),
        ),
      );
      const prompt = allDecode.then(() => this.#requests.toEngine(engine, rows, 1));
      const [{ tokenMs: promptTokenMs }, ...answered] = await Promise.all([prompt, ...answers]);
      const atMs = promptTokenMs[0]!;
      if (!counts || answered.some(({ tokenMs }) => tokenMs.indexOf(atMs) < 1)) continue;
      const { tokenMs } = answered[0]!;
      const ms = atMs - tokenMs[tokenMs.indexOf(atMs) - 1]!;
      const steps = [mixedShape(count, DECODING + 2, rows)];
      const what = `prefill of ${rows} with ${count} decoding on ${nameOf(role)}`;
      this.#add({ what, role, steps }, ms, [[ms]]);
    }
  }

  async #measureHandovers(counts: boolean): Promise<void> {
    for (const tokens of this.#inTurn(this.#handoverLengths)) {
      this.#signal.throwIfAborted();
      const { final } = await this.#requests.singleTurn(this.#cluster, tokens);
      const { pToD } = final.transfer;
      if (!counts || !pToD) continue;
      const aroundMs = sumOf(AROUND_READ, (stage) => final.stagesMs[stage] ?? 0);
      const { router = 0 } = final.stagesMs;
      this.#handovers.push({ routerMs: router, readMs: pToD.ms, aroundMs, bytes: pToD.bytes });
    }
  }

  /** Every other item, and the rest in the next round; all of them in the first. A single item is in every round. */
  #inTurn<T>(all: readonly T[]): readonly T[] {
    return this.#rounds === 0 || all.length === 1 ? all : all.filter((_, i) => (i + this.#rounds) % 2 === 0);
  }

  #add(point: Omit<Point, 'ms' | 'stretchesMs'>, ms: number, stretchesMs: Point['stretchesMs']): void {
    const known = this.#points.get(point.what) ?? { ...point, ms: [], stretchesMs: [] };
    this.#points.set(point.what, known);
    known.ms.push(ms);
    known.stretchesMs.push(...stretchesMs);
  }
}

/** Stages of a turn's TTFT at D that no measured step covers. */
const AROUND_READ = ['queue_d', 'lookup_d', 'schedule_d'];

const nameOf = (role: EngineRole): string => (role === 'prefill' ? 'P' : 'D');

/** Times between neighbouring tokens of one answer while all are decoding: they share their steps. */
function gapsTogether(answers: readonly (readonly number[])[]): number[] {
  const fromMs = Math.max(...answers.map((tokenMs) => tokenMs[0]!));
  const untilMs = Math.min(...answers.map((tokenMs) => tokenMs.at(-1)!));
  const [tokenMs] = answers;
  return tokenMs!.flatMap((ms, i) => {
    const before = tokenMs![i - 1];
    return before !== undefined && before >= fromMs && ms <= untilMs ? [ms - before] : [];
  });
}
