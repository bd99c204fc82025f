/**
 * Sends turns to a fleet, simulated or real: as the benchmark's clients, which wait for each answer, or as
 * conversations that arrive however many wait. A conversation's next turn comes after the last token of the turn before
 * it and a think time.
 */
import { joined, type TokenIds, written } from '../../config/token-ids.ts';
import type { Clock } from '../../engine/types.ts';
import { EngineDeadError, KvferryError, RequestError } from '../../errors.ts';
import type { Cluster } from '../../fleet/types.ts';
import type { AnsweredTurn, BenchTarget, TurnToSend } from '../../lab/multiturn/target.ts';
import type { GenerateRequest, TurnResult } from '../../router/turn-types.ts';
import { STREAM } from '../../seeded.ts';
import { Random } from '../../workload/random.ts';
import type { BenchConversation } from '../../workload/types.ts';
import type { Collector } from '../results/collector.ts';
import type { ListedTokens } from '../tokens/listed-tokens.ts';

/** Length of an answer if none is given, tokens. */
export const FALLBACK_OUTPUT = 128;

/** A fleet, simulated or not, and its clock. */
export interface Served extends Pick<Cluster, 'generate' | 'endConversation'> {
  clock: Pick<Clock, 'now' | 'sleep'>;
}

/** Records what becomes of requests. */
export type Counting = Pick<Collector, 'arrives' | 'ends' | 'fails' | 'conversationEnds'>;

/** Serves a turn to its end. A failure of this turn alone is counted, and gives null; other errors are thrown. */
export async function serveTurn(
  cluster: Served,
  request: GenerateRequest & { conversationId: string },
  collector: Counting,
): Promise<TurnResult | null> {
  try {
    return await servedTurn(cluster, request, collector);
  } catch (error) {
    if (error instanceof RequestError) return null;
    throw error;
  }
}

/**
 * Serves a turn to its end. A failure of this turn alone is counted, and thrown as a RequestError. `signal`: aborts the
 * whole load.
 */
async function servedTurn(
  cluster: Served,
  request: GenerateRequest & { conversationId: string },
  collector: Counting,
  signal?: AbortSignal,
): Promise<TurnResult> {
  const { clock } = cluster;
  const { conversationId } = request;
  const startMs = clock.now();
  collector.arrives(conversationId, startMs);
  try {
    for await (const { final } of cluster.generate(Object.assign({ onlyEnd: true }, request))) {
      if (!final) continue;
      collector.ends(startMs, final);
      return final;
    }
    throw new EngineDeadError(`a turn of ${conversationId} ended without a result`);
  } catch (error) {
    if (!(error instanceof KvferryError) || error.code === 'internal' || signal?.aborted) throw error;
    collector.fails(conversationId, error.message, clock.now());
    throw error instanceof RequestError ? error : new RequestError(error.message, { cause: error });
  }
}

/** A conversation that arrives at its own time. */
export interface Arriving {
  atMs: number;
  conversation: BenchConversation;
}

/**
 * `count` conversations, with exponential gaps between them; the given ones are repeated under new ids if there are
 * fewer.
 */
export function* poissonArrivals(
  conversations: readonly BenchConversation[],
  { perSecond, count, seed }: { perSecond: number; count: number; seed: number },
): Generator<Arriving> {
  const random = new Random(seed, STREAM.arrivals);
  let atMs = 0;
  for (let i = 0; i < count; i++) {
    atMs += random.exponential(1000 / perSecond);
    const conversation = conversations[i % conversations.length]!;
    const id =
      i < conversations.length
        ? conversation.id
        : `${conversation.id}+${Math.floor(i / conversations.length)}`;
    yield { atMs, conversation: { ...conversation, id } };
  }
}

export interface ArrivalOptions {
  /** Between the last token of an answer and the next turn, milliseconds. */
  thinkMs: number;
  failover: boolean;
  /** Makes prompts runs of their messages, which is faster for long ones; absent: prompts are lists. */
  listed?: ListedTokens;
}

/** Resolves when the last answer has ended. Call inside run(). */
export async function serveArrivals(
  cluster: Served,
  arrivals: Iterable<Arriving>,
  collector: Collector,
  options: ArrivalOptions,
): Promise<void> {
  const underWay = new Set<Promise<void>>();
  let failure: unknown = null;
  for (const { atMs, conversation } of arrivals) {
    await cluster.clock.sleep(atMs - cluster.clock.now());
    collector.conversationComes(cluster.clock.now(), conversation.turns.length, options.thinkMs);
    const served = converse(cluster, conversation, collector, options).catch((error: unknown) => {
      failure ??= error;
    });
    underWay.add(served);
    void served.then(() => underWay.delete(served));
    if (failure) break;
  }
  await Promise.all(underWay);
  if (failure) throw failure;
}

/** Serves a conversation from its first turn to its last, or to the first that fails. */
export async function converse(
  cluster: Served,
  { id, turns }: BenchConversation,
  collector: Counting,
  { thinkMs, failover, listed }: ArrivalOptions,
): Promise<void> {
  let history: TokenIds = [];
  for (const [index, { content, outputTokens }] of turns.entries()) {
    if (index > 0) await cluster.clock.sleep(thinkMs);
    const tokenIds = tokenIdsOf(content);
    const promptTokenIds = joined(history, listed?.of(tokenIds) ?? tokenIds);
    const request = { conversationId: id, promptTokenIds, sampling: exactly(outputTokens), failover };
    const result = await serveTurn(cluster, request, collector);
    if (!result) break;
    history = joined(promptTokenIds, result.outputTokenIds);
  }
  collector.conversationEnds();
  await cluster.endConversation(id);
}

export const exactly = (outputTokens: number | null) => ({
  maxTokens: outputTokens ?? FALLBACK_OUTPUT,
  ignoreEos: true,
});

function tokenIdsOf(content: BenchConversation['turns'][number]['content']): readonly number[] {
  if (content.kind === 'tokens') return content.tokenIds;
  throw new TypeError('a simulated turn must be token ids');
}

/** Records turns that only warm up; their failures count. */
const warmingUp = (collector: Collector): Counting => ({
  arrives: (...arrived) => collector.arrives(...arrived),
  ends: (startMs, { conversationId, latencyMs }) => collector.warmedUp(conversationId, startMs + latencyMs),
  fails: (...failed) => collector.fails(...failed),
  conversationEnds() {},
});

/** The fleet as a target of the benchmark's clients. */
export class LoadTarget implements BenchTarget {
  readonly #cluster: Served;
  readonly #counting: (turn: number) => Counting;

  /** `warmupStep`: first turns are served as a warm-up, and do not count. */
  constructor(cluster: Served, collector: Collector, warmupStep = false) {
    this.#cluster = cluster;
    const first = warmupStep ? warmingUp(collector) : collector;
    this.#counting = (turn) => (turn === 1 ? first : collector);
  }

  async send({ conversationId, turn, prompt, maxTokens, forced, signal }: TurnToSend): Promise<AnsweredTurn> {
    if (prompt.kind !== 'tokens') throw new TypeError('a simulated turn must be token ids');
    const sampling = { ...exactly(maxTokens), ...(forced && { forcedTokenIds: forced }) };
    const request = { conversationId, promptTokenIds: prompt.tokenIds, sampling, signal };
    const result = await servedTurn(this.#cluster, request, this.#counting(turn), signal);
    return answered(result);
  }

  endConversation(conversationId: string): Promise<void> {
    return this.#cluster.endConversation(conversationId);
  }

  async settled(): Promise<void> {}
}

/** Without the gaps between tokens, which are not needed here. */
function answered(result: TurnResult): AnsweredTurn {
  const { ttftMs, latencyMs, prompt, transfer, stagesMs, routed } = result;
  const outputTokenIds = written(result.outputTokenIds);
  return {
    ...{ ttftMs, latencyMs, stagesMs },
    gapsMs: [],
    inputTokens: prompt.promptTokens,
    outputTokens: outputTokenIds.length,
    chunks: outputTokenIds.length,
    output: outputTokenIds,
    answer: { kind: 'tokens', tokenIds: outputTokenIds },
    account: prompt,
    bytesPToD: transfer.pToD?.bytes ?? 0,
    bytesDToP: transfer.dToP?.bytes ?? 0,
    ...(routed ? { routed } : {}),
  };
}
