/** Conversations that come to a fleet as long as it is watched: by a rate that may change, whoever waits. */
import { sample } from '../../workload/distributions.ts';
import { Random } from '../../workload/random.ts';
import type { BenchConversation, BenchTurn } from '../../workload/types.ts';
import type { Timer, VirtualClock } from '../clock.ts';
import { type Arriving, type Counting, converse, type Served } from '../load.ts';
import { LONGEST } from './room.ts';
import { type LiveLoadSettings, TOKEN_IDS } from './settings.ts';

/** Conversations begin with one of so many, as those of so many services would. */
const SYSTEM_PROMPTS = 4;
/** Of a lognormal's underlying normal. */
const SPREAD = 0.6;

/** The same settings, seed and index give the same conversation. */
export function conversationAt(
  { turns, question, answer, system }: LiveLoadSettings,
  seed: number,
  index: number,
): BenchConversation {
  const random = new Random(scattered(seed, index + 1));
  const which = random.int(1, SYSTEM_PROMPTS);
  const questions = lengths(question, turns, random);
  const answers = lengths(answer, turns, random);
  const drawn = (from: Random, count: number) =>
    Array.from({ length: count }, () => from.int(TOKEN_IDS[0], TOKEN_IDS[1] - 1));
  const prompt = drawn(new Random(scattered(seed, -which)), system);
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

/** Neighbouring seeds begin alike: scattered, they do not. */
const scattered = (seed: number, index: number): number =>
  Math.imul(Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(index, 0x85ebca6b), 0xc2b2ae35);

/** Conversations a second that make so many requests. */
const conversationsPerSecond = ({ rate, turns }: LiveLoadSettings): number => rate / turns;

/** Of a load that does not change, those that come until then. */
export function* arrivalsUntil(load: LiveLoadSettings, seed: number, untilMs: number): Generator<Arriving> {
  const gaps = new Random(scattered(seed, 0));
  const meanMs = 1000 / conversationsPerSecond(load);
  let index = 0;
  for (let atMs = gaps.exponential(meanMs); atMs < untilMs; atMs += gaps.exponential(meanMs))
    yield { atMs, conversation: conversationAt(load, seed, index++) };
}

/** Where a fleet does not keep up, those that come beyond so many are turned away, and counted. */
const MOST_UNDER_WAY = 1000;

export class LiveLoad {
  /** Conversations that came and were not served. */
  turnedAway = 0;
  /** Conversations under way. */
  open = 0;
  readonly #fleet: Served;
  readonly #clock: VirtualClock;
  readonly #counting: Counting;
  readonly #seed: number;
  readonly #gaps: Random;
  readonly #onBroken: (error: unknown) => void;
  #settings: LiveLoadSettings;
  #index = 0;
  #next: Timer | null = null;

  /** Begins to come. `onBroken`: told what is no request's own fault. */
  constructor(
    fleet: Served,
    clock: VirtualClock,
    counting: Counting,
    { load, seed }: { load: LiveLoadSettings; seed: number },
    onBroken: (error: unknown) => void,
  ) {
    this.#fleet = fleet;
    this.#clock = clock;
    this.#counting = counting;
    this.#settings = load;
    this.#seed = seed;
    this.#gaps = new Random(scattered(seed, 0));
    this.#onBroken = onBroken;
    this.#wait();
  }

  get settings(): LiveLoadSettings {
    return this.#settings;
  }

  /** From now on; conversations that came before go on as they were. Exponential gaps know nothing of the past. */
  change(settings: LiveLoadSettings): void {
    this.#settings = settings;
    if (this.#next) this.#clock.cancel(this.#next);
    this.#wait();
  }

  #wait(): void {
    const perSecond = conversationsPerSecond(this.#settings);
    this.#next =
      perSecond > 0
        ? this.#clock.after(this.#gaps.exponential(1000 / perSecond), () => {
            this.#comes();
            this.#wait();
          })
        : null;
  }

  #comes(): void {
    const conversation = conversationAt(this.#settings, this.#seed, this.#index++);
    if (this.open >= MOST_UNDER_WAY) {
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
