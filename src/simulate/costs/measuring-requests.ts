/** Requests for measuring: prompts that no engine has seen before, to one engine alone or to the fleet. */
import { DEFAULT_SAMPLING } from '../../engine/sampling.ts';
import { InternalError } from '../../errors.ts';
import type { Cluster } from '../../fleet/types.ts';
import type { EngineClient } from '../../router/engine-client.ts';
import type { TurnResult } from '../../router/turn-types.ts';
import { STREAM } from '../../seeded.ts';
import { Random } from '../../workload/random.ts';
import { LOWEST_TOKEN_ID } from '../../workload/random-conversations.ts';

/** A turn that ended at `atMs`. Its conversation stays open until the caller ends it. */
export interface MeasuredTurn {
  conversationId: string;
  promptTokenIds: readonly number[];
  final: TurnResult;
  atMs: number;
}

export class MeasuringRequests {
  readonly #random: Random;
  readonly #vocabSize: number;
  #sent = 0;

  constructor(vocabSize: number, seed: number) {
    this.#vocabSize = vocabSize;
    this.#random = new Random(seed, STREAM.measuring);
  }

  /**
   * Sends a request to one engine, without any transfer. `before`: beginning of its prompt; `onTokens`: called as
   * tokens come, with their number so far; `found`: prompt tokens that the engine had. Times in ms.
   */
  async toEngine(
    engine: EngineClient,
    tokens: number,
    maxTokens: number,
    before: readonly number[] = [],
    onTokens: (count: number) => void = () => {},
  ) {
    const requestId = `measured-${++this.#sent}`;
    const sampling = { ...DEFAULT_SAMPLING, maxTokens, ignoreEos: true };
    const promptTokenIds = [...before, ...this.prompt(tokens)];
    const prompt = { promptTokenIds, kvTransferParams: null, cacheSalt: null };
    const stream = await engine.submit({ requestId, sampling, ...prompt });
    const tokenMs: number[] = [];
    let [arrivalMs, queuedMs, found] = [0, 0, 0];
    for await (const { output, atMs } of stream) {
      ({ arrivalMs, queuedMs } = output.times);
      found = output.prompt?.localHitTokens ?? found;
      for (const _token of output.tokens) tokenMs.push(atMs);
      if (output.tokens.length > 0) onTokens(tokenMs.length);
    }
    return { arrivalMs, queuedMs, tokenMs, found };
  }

  /** A conversation of one turn, with one token for an answer. */
  async singleTurn(cluster: Cluster, tokens: number): Promise<MeasuredTurn> {
    const turn = await this.firstTurn(cluster, tokens);
    await cluster.endConversation(turn.conversationId);
    return turn;
  }

  /** A conversation's first turn, with one token for an answer. */
  firstTurn(cluster: Cluster, tokens: number): Promise<MeasuredTurn> {
    return this.#turn(cluster, `measured-${++this.#sent}`, this.prompt(tokens), {});
  }

  /** The conversation's next turn, with `tokens` new tokens; P pulls all that it lacks and D has. */
  nextTurn(cluster: Cluster, { conversationId, promptTokenIds, final }: MeasuredTurn, tokens: number) {
    const prompt = [...promptTokenIds, ...final.outputTokenIds, ...this.prompt(tokens)];
    return this.#turn(cluster, conversationId, prompt, { pull: 'always' });
  }

  async #turn(
    cluster: Cluster,
    conversationId: string,
    promptTokenIds: readonly number[],
    how: { pull?: 'always' },
  ): Promise<MeasuredTurn> {
    const sampling = { maxTokens: 1, ignoreEos: true, temperature: 0 };
    // Some routing policies let D prefill by itself, so that nothing would be handed over.
    const turn = { conversationId, promptTokenIds, sampling, routing: 'round-robin', ...how };
    for await (const { final, atMs } of cluster.generate(turn))
      if (final) return { conversationId, promptTokenIds, final, atMs };
    throw new InternalError('a turn ended without a result');
  }

  prompt(tokens: number): number[] {
    return Array.from({ length: tokens }, () => this.#random.int(LOWEST_TOKEN_ID, this.#vocabSize - 1));
  }
}

/** Mean time of a token of an answer, by the times of its tokens: a median would not see the few that waited long. */
export const msPerToken = (tokenMs: readonly number[]): number =>
  (tokenMs.at(-1)! - tokenMs[0]!) / (tokenMs.length - 1);

/** Counts the tokens of several answers. */
export class TokenCounts {
  readonly #counts: number[];
  #ended = false;
  #wake = () => {};

  constructor(answers: number) {
    this.#counts = Array.from({ length: answers }, () => 0);
  }

  update(answer: number, count: number): void {
    this.#counts[answer] = count;
    this.#wake();
  }

  end(): void {
    this.#ended = true;
    this.#wake();
  }

  /** Resolves once each answer has `tokens` more than now; to false if they ended before that. */
  async more(tokens: number): Promise<boolean> {
    const targets = this.#counts.map((count) => count + tokens);
    while (!this.#ended && this.#counts.some((count, i) => count < targets[i]!))
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    return !this.#ended;
  }
}
