/** Conversations that arrive at a watched fleet, however many wait, at a rate that may change. */
import { sample } from '../../workload/distributions.ts';
import { Random } from '../../workload/random.ts';
import type { BenchConversation, BenchTurn } from '../../workload/types.ts';
import { type Arriving, type Counting, converse, type Served } from '../load/load.ts';
import { LONGEST } from './room.ts';
import { type LiveLoadSettings, TOKEN_IDS } from './settings.ts';

/** Number of system prompts that conversations begin with, as if from this many services. */
const SYSTEM_PROMPTS = 4;
/** Sigma of a lognormal's underlying normal. */
const SPREAD = 0.6;

/** Range of ids for prompts; the end is excluded. */
export type TokenRange = readonly [number, number];

/** The same settings, seed and index give the same conversation. */
export function conversationAt(
  { turns, question, answer, system }: LiveLoadSettings,
  seed: number,
  index: number,
  tokenIds: TokenRange = TOKEN_IDS,
): BenchConversation {
  const random = new Random(seed, index + 1);
  const which = random.int(1, SYSTEM_PROMPTS);
  const questions = lengths(question, turns, random);
  const answers = lengths(answer, turns, random);
  const drawn = (from: Random, count: number) =>
    Array.from({ length: count }, () => from.int(tokenIds[0], tokenIds[1] - 1));
  const prompt = drawn(new Random(seed, -which), system);
  return {
    id: `c${index + 1}`,
    turns: questions.map((length, turn): BenchTurn => {
      const tokenIds = [...(turn === 0 ? prompt : []), ...drawn(random, length)];
      return {
        content: { kind: 'tokens', tokenIds },
        inputTokens: tokenIds.length,
        outputTokens: answers[turn]!,
      };
    }),
  };
}

const lengths = (mean: number, count: number, random: Random): number[] => {
  const mu = Math.log(mean) - (SPREAD * SPREAD) / 2;
  const drawn = sample(
    { distribution: 'lognormal', mean: mu, sigma: SPREAD, max: LONGEST * mean },
    count,
    random,
  );
  return drawn.map((length) => Math.max(1, length));
};

/** Conversations a second that give `rate` requests a second. */
const conversationsPerSecond = ({ rate, turns }: LiveLoadSettings): number => rate / turns;

/** The conversations of an unchanging load that arrive before untilMs. */
export function* arrivalsUntil(load: LiveLoadSettings, seed: number, untilMs: number): Generator<Arriving> {
  const gaps = new Random(seed, 0);
  const meanMs = 1000 / conversationsPerSecond(load);
  let index = 0;
  for (let atMs = gaps.exponential(meanMs); atMs < untilMs; atMs += gaps.exponential(meanMs))
    yield { atMs, conversation: conversationAt(load, seed, index++) };
}

/** Conversations beyond this many under way are turned away, and counted: the fleet does not keep up. */
const MOST_UNDER_WAY = 1000;

/** The virtual clock, or the wall clock. */
export interface LoadClock {
  /** Returns a function that cancels it. */
  after(ms: number, run: () => void): () => void;
}

export interface LiveLoadOptions {
  load: LiveLoadSettings;
  seed: number;
  /** Ids of the model that serves; absent: of a simulated one. */
  tokenIds?: TokenRange;
  /** Most conversations under way; absent: MOST_UNDER_WAY. */
  mostUnderWay?: number;
}

export class LiveLoad {
  /** Conversations that came and were not served. */
  turnedAway = 0;
  /** Conversations under way. */
  open = 0;
  readonly #fleet: Served;
  readonly #clock: LoadClock;
  readonly #counting: Counting;
  readonly #options: Readonly<LiveLoadOptions>;
  readonly #gaps: Random;
  readonly #onBroken: (error: unknown) => void;
  #settings: LiveLoadSettings;
  #index = 0;
  #cancelNext: (() => void) | null = null;

  /** Arrivals begin now. `onBroken`: called with errors that are no request's own. */
  constructor(
    fleet: Served,
    clock: LoadClock,
    counting: Counting,
    options: LiveLoadOptions,
    onBroken: (error: unknown) => void,
  ) {
    this.#fleet = fleet;
    this.#clock = clock;
    this.#counting = counting;
    this.#settings = options.load;
    this.#options = options;
    this.#gaps = new Random(options.seed, 0);
    this.#onBroken = onBroken;
    this.#wait();
  }

  get settings(): LiveLoadSettings {
    return this.#settings;
  }

  /**
   * Applies from now on; conversations that arrived before are unchanged. The next gap is drawn again, since
   * exponential gaps have no memory.
   */
  change(settings: LiveLoadSettings): void {
    this.#settings = settings;
    this.#cancelNext?.();
    this.#wait();
  }

  #wait(): void {
    const perSecond = conversationsPerSecond(this.#settings);
    this.#cancelNext =
      perSecond > 0
        ? this.#clock.after(this.#gaps.exponential(1000 / perSecond), () => {
            this.#comes();
            this.#wait();
          })
        : null;
  }

  #comes(): void {
    const { seed, tokenIds = TOKEN_IDS, mostUnderWay = MOST_UNDER_WAY } = this.#options;
    const conversation = conversationAt(this.#settings, seed, this.#index++, tokenIds);
    if (this.open >= mostUnderWay) {
      this.turnedAway++;
      return;
    }
    this.open++;
    const { thinkMs } = this.#settings;
    converse(this.#fleet, conversation, this.#counting, { thinkMs, failover: true })
      .catch(this.#onBroken)
      .finally(() => {
        this.open--;
      });
  }
}
