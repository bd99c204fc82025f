/**
 * `npm run bench:serve -- --duration 60m`: concurrent clients that ask, stream, converse, disconnect and send invalid
 * requests, while engines and messages fail. Every answer must be correct, or a refusal that says when to retry.
 */
import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import type { RandomGenerator } from 'pure-rand/types/RandomGenerator';
import type { FaultKind } from '../../../faults/schedule.ts';
import { quantile } from '../../../measure/statistics.ts';
import { seededGenerator } from '../../../seeded.ts';
import { sum, sumOf } from '../../../sum.ts';
import { growth, type MemoryMark, type MemoryMarks } from '../server-memory.ts';
import {
  type Answer,
  badRequests,
  chatBody,
  type Message,
  memoryOf,
  QUESTIONS,
  question,
  send,
  stillUsed,
  streamedText,
  TTL_SECONDS,
  textOf,
  type Urls,
} from './requests.ts';
import type { Strike } from './server.ts';

const CLIENTS = 12;
/** Longest pause of a client between two requests, milliseconds. */
const MOST_PAUSE_MS = 200;
/** Milliseconds between two faults. */
const LEAST_CALM_MS = 1000;
const MOST_CALM_MS = 8000;
/** Milliseconds until ended engines serve again. */
const MEND_MS = 8000;
const CONVERSATIONS = 8;
const TURNS = 3;

const KINDS = ['asks', 'streams', 'converses', 'leaves', 'sends nonsense'] as const;
type Kind = (typeof KINDS)[number];

/** What a client does next, in tenths. */
const MIX: readonly Kind[] = [
  ...['asks', 'asks', 'asks', 'streams', 'streams', 'streams'],
  ...['converses', 'leaves', 'sends nonsense', 'sends nonsense'],
] as Kind[];

/** Faults after which an engine is replaced. */
const ENDING = ['lose-device', 'out-of-memory', 'end'] as const satisfies FaultKind[];

const FAULTS = [
  ...['lose', 'delay', 'repeat', 'reorder', 'truncate', 'lose-notice', 'flip'],
  ...ENDING,
  ...['hang', 'slow', 'expire'],
] as FaultKind[];

export interface HourFigures {
  /** Seconds of load; engines recover in between and afterwards. */
  seconds: number;
  seed: number;
  requests: number;
  /** Requests by client behaviour and outcome. `told`: refused with a retry hint, or an error in a stream when the engine ended. */
  clients: Record<
    Kind,
    { right: number; told: number; left: number; p50_ms: number | null; p99_ms: number | null }
  >;
  /** Faults by kind. */
  struck: Partial<Record<FaultKind, number>>;
  memory: MemoryMarks;
  /** Violations. */
  faults: Record<string, number>;
}

export interface HourOptions {
  urls: Urls;
  child: ChildProcess;
  seconds: number;
  seed: number;
  onProgress(seconds: number, requests: number, struck: number, faults: number): void;
}

export function runHour(options: HourOptions): Promise<HourFigures> {
  return new Hour(options).run();
}

class Hour {
  readonly #options: HourOptions;
  readonly #chat: string;
  readonly #answers: string[] = [];
  /** Complete conversations, as messages. */
  readonly #talks: Message[][] = [];
  readonly #tallies = new Map(
    KINDS.map((kind) => [kind, { right: 0, told: 0, left: 0, ms: [] as number[] }]),
  );
  readonly #struck: Partial<Record<FaultKind, number>> = {};
  readonly #faults: Record<string, number> = {};
  #requests = 0;
  #conversations = 0;
  /** Clients and faults continue until then, by performance.now(). */
  #untilMs = 0;

  constructor(options: HourOptions) {
    this.#options = options;
    this.#chat = `${options.urls.router}/v1/chat/completions`;
  }

  async run(): Promise<HourFigures> {
    const { child, urls, seconds, seed, onProgress } = this.#options;
    await this.#learn();
    const memory = memoryOf(child, urls);
    // Each client has its own random stream, so their relative progress does not change what each does.
    const [strikes, ...clients] = Array.from({ length: 1 + CLIENTS }, (_, i) => seededGenerator(seed, i));
    const begun = performance.now();
    const tell = setInterval(() => {
      const struck = sum(Object.values(this.#struck));
      onProgress(
        Math.min(seconds, (performance.now() - begun) / 1000),
        this.#requests,
        struck,
        sum(Object.values(this.#faults)),
      );
    }, 1000);
    const marks: MemoryMark[] = [];
    let endedBefore = 0;
    try {
      marks.push(await memory.mark(0));
      for (let part = 0; part < 2; part++) {
        endedBefore = this.#ended();
        this.#untilMs = performance.now() + (1000 * seconds) / 2;
        await Promise.all([this.#strike(strikes!), ...clients.map((draws) => this.#client(draws))]);
        await sleep(MEND_MS);
        marks.push(await memory.mark(this.#requests));
      }
    } finally {
      clearInterval(tell);
    }
    await sleep(1000 * TTL_SECONDS + 1500);
    const [before, half, after] = marks as [MemoryMark, MemoryMark, MemoryMark];
    const grown = growth({ before, half, after }, this.#ended() - endedBefore);
    for (const found of [...grown, ...(await stillUsed(urls))]) this.#fault(found);
    const byKind = Object.fromEntries(
      [...this.#tallies].map(([kind, { right, told, left, ms }]) => {
        return [kind, { right, told, left, p50_ms: at(ms, 0.5), p99_ms: at(ms, 0.99) }];
      }),
    ) as HourFigures['clients'];
    return {
      seconds,
      seed,
      requests: this.#requests,
      clients: byKind,
      struck: this.#struck,
      memory: { before, half, after },
      faults: this.#faults,
    };
  }

  /** The correct answers, from an undisturbed server; greedy, so they do not change. */
  async #learn(): Promise<void> {
    for (let i = 0; i < QUESTIONS; i++)
      this.#answers.push(textOf(await send(this.#chat, chatBody([question(i)]))));
    for (let i = 0; i < CONVERSATIONS; i++) {
      const messages: Message[] = [];
      for (let turn = 0; turn < TURNS; turn++) {
        messages.push(question(i + turn));
        messages.push({ role: 'assistant', content: textOf(await send(this.#chat, chatBody(messages))) });
      }
      this.#talks.push(messages);
    }
  }

  /** Engines that were made to end so far. */
  #ended(): number {
    return sumOf(ENDING, (kind) => this.#struck[kind] ?? 0);
  }

  #fault(what: string): void {
    this.#faults[what] = (this.#faults[what] ?? 0) + 1;
  }

  async #client(draws: RandomGenerator): Promise<void> {
    while (performance.now() < this.#untilMs) {
      const kind = MIX[uniformInt(draws, 0, MIX.length - 1)]!;
      try {
        await this.#act(kind, draws);
      } catch (error) {
        this.#fault(`no answer: ${(error as Error).message}`);
      }
      await sleep(uniformInt(draws, 0, MOST_PAUSE_MS));
    }
  }

  async #act(kind: Kind, draws: RandomGenerator): Promise<void> {
    const i = uniformInt(draws, 0, QUESTIONS - 1);
    const ask = (more = {}) => send(this.#chat, chatBody([question(i)], more));
    switch (kind) {
      case 'asks':
        return this.#judge(kind, await ask(), (answer) => textOf(answer) === this.#answers[i]);
      case 'streams':
        return this.#judge(kind, await ask({ stream: true }), (answer) =>
          this.#streamed(answer, this.#answers[i]!),
        );
      case 'leaves': {
        const leaveAfterMs = uniformInt(draws, 0, 60);
        const body = chatBody([question(i)], { stream: uniformInt(draws, 0, 1) === 1 });
        return this.#judge(kind, await send(this.#chat, body, { leaveAfterMs }), () => true);
      }
      case 'converses':
        return this.#converse(this.#talks[i % CONVERSATIONS]!);
      case 'sends nonsense': {
        const bad = badRequests(this.#options.urls);
        const { url, body, status } = bad[i % bad.length]!;
        const answer = await send(url, body);
        // With a full queue, or without engines, the server does not check the request.
        if (answer.status === 503) return this.#judge(kind, answer, () => false);
        // Invalid parameters may be pulled just when a message or a device is lost; this is vLLM's answer to KV that did not arrive.
        if (answer.status === 500 && answer.body.includes('did not arrive')) {
          this.#requests++;
          this.#tallies.get(kind)!.told++;
        } else if (answer.status !== status)
          this.#fault(`nonsense got ${answer.status} for ${status}: ${answer.body.slice(0, 200)}`);
        else this.#right(kind, answer);
      }
    }
  }

  /** A conversation under its own id: each turn finds at D what the last one left. */
  async #converse(talk: readonly Message[]): Promise<void> {
    const conversation_id = `hour-${++this.#conversations}`;
    for (let said = 1; said < talk.length; said += 2) {
      const answer = await send(this.#chat, chatBody(talk.slice(0, said), { conversation_id }));
      this.#judge('converses', answer, () => textOf(answer) === talk[said]!.content);
      if (answer.status !== 200) return;
    }
  }

  #judge(kind: Kind, answer: Answer, isRight: (answer: Answer) => boolean | 'told'): void {
    const tally = this.#tallies.get(kind)!;
    if (answer.left) {
      this.#requests++;
      tally.left++;
      return;
    }
    if (answer.status === 503 && answer.headers['retry-after'] !== undefined) {
      this.#requests++;
      tally.told++;
      return;
    }
    if (answer.status !== 200) {
      this.#requests++;
      this.#fault(`who ${kind} got ${answer.status}: ${answer.body.slice(0, 160)}`);
      return;
    }
    const right = isRight(answer);
    if (right === true) {
      this.#right(kind, answer);
      return;
    }
    this.#requests++;
    if (right === 'told') tally.told++;
    else this.#fault(`who ${kind} got a wrong answer`);
  }

  #right(kind: Kind, { ms }: Answer): void {
    const tally = this.#tallies.get(kind)!;
    this.#requests++;
    tally.right++;
    tally.ms.push(ms);
  }

  /** A stream that has begun can only report an error inside it. */
  #streamed(answer: Answer, expected: string): boolean | 'told' {
    const came = streamedText(answer);
    if ('text' in came) return came.text === expected;
    return came.error === 503 ? 'told' : false;
  }

  async #strike(draws: RandomGenerator): Promise<void> {
    for (;;) {
      await sleep(
        Math.min(
          uniformInt(draws, LEAST_CALM_MS, MOST_CALM_MS),
          Math.max(0, this.#untilMs - performance.now()),
        ),
      );
      if (performance.now() >= this.#untilMs) return;
      const kind = FAULTS[uniformInt(draws, 0, FAULTS.length - 1)]!;
      const target = uniformInt(draws, 0, 1) === 0 ? 'prefill' : 'decode';
      const strike: Strike = { kind, target };
      // If the server has ended, that is reported elsewhere.
      this.#options.child.send(strike, () => {});
      this.#struck[kind] = (this.#struck[kind] ?? 0) + 1;
    }
  }
}

const at = (samples: readonly number[], q: number): number | null =>
  samples.length === 0 ? null : quantile(samples, q);
