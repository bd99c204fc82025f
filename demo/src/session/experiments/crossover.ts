/** Measures the TTFT by the length of history that D has, pulled and computed again, in several passes. Under a minute. */
import { median } from 'simple-statistics';
import { messageOf } from '../../../../src/errors.ts';
import type { Crossover } from '../../../../src/recording/experiments.ts';
import { makeConversations } from '../../../../src/workload/random-conversations.ts';
import type { Engines } from '../engines.ts';
import type { Measuring } from './measuring.ts';

/** Tokens that D has and P lacks. */
const SIZES = [32, 64, 96, 128, 192, 256, 384];
/** New tokens of the measured turn. */
const QUESTION_TOKENS = 16;
/** Tokens that D generates first, so that it holds the whole history. */
const ANSWER_TOKENS = 2;
const MOST_PASSES = 3;
/** No pass starts later than this after the beginning. */
const LAST_PASS_MS = 20_000;

type Lane = 'pullMs' | 'recomputeMs';

/** Leaves the engines empty and in either mode; configure them afterwards. Throws the engines' errors. */
export async function runCrossover({ engines, settings, signal, emit, now }: Measuring): Promise<void> {
  const { cluster } = engines.running!;
  const { vocabSize, maxModelLen } = cluster.info.model;
  const room = Math.min(maxModelLen, (Math.min(settings.pBlocks, settings.dBlocks) - 1) * settings.blockSize);
  const sizes = SIZES.filter((size) => size + QUESTION_TOKENS + ANSWER_TOKENS < room);
  const times = new Map<string, number[]>();
  let done = 0;
  let total = 2 * sizes.length;
  const show = (running: boolean, error: string | null) => {
    const middle = (lane: Lane, tokens: number) => {
      const list = times.get(`${lane} ${tokens}`);
      return list ? median(list) : null;
    };
    const points = sizes.map((tokens) => {
      return { tokens, pullMs: middle('pullMs', tokens), recomputeMs: middle('recomputeMs', tokens) };
    });
    const crossover: Crossover = {
      ...{ points, done, total, crossoverTokens: crossing(points), running, error },
      link: settings.link,
    };
    emit({ kind: 'crossover', atMs: now(), crossover });
  };
  const begun = now();
  try {
    if (sizes.length < 2)
      throw new Error('The pools are too small to compare sizes: give P and D more blocks.');
    for (let pass = 0; pass < MOST_PASSES; pass++) {
      if (pass > 0 && now() - begun > LAST_PASS_MS) break;
      total = 2 * sizes.length * (pass + 1);
      show(true, null);
      for (const lane of ['pullMs', 'recomputeMs'] as const) {
        const mode = lane === 'pullMs' ? 'bidirectional' : 'unidirectional';
        await engines.configure(settings, {
          mode,
          prefixCaching: false,
          recomputeThreshold: 0,
          costProfile: null,
        });
        for (const tokens of sizes) {
          const seed = settings.seed + 1000 * pass + tokens;
          const conversationId = `sweep-${tokens}-${seed}`;
          const ms = await secondTurn(engines, conversationId, tokens, vocabSize, seed, signal);
          emit({ kind: 'conversation_ended', atMs: now(), conversation: conversationId });
          const key = `${lane} ${tokens}`;
          times.set(key, [...(times.get(key) ?? []), ms]);
          done++;
          show(true, null);
        }
      }
    }
    show(false, null);
  } catch (error) {
    show(false, messageOf(error));
    throw error;
  }
}

/** TTFT, milliseconds, of a turn after a history of `tokens` tokens that D has. */
async function secondTurn(
  engines: Engines,
  conversationId: string,
  tokens: number,
  vocabSize: number,
  seed: number,
  signal: AbortSignal,
): Promise<number> {
  const { cluster } = engines.running!;
  const sizes = { conversations: 1, turns: 1, systemTokens: 0, outputTokens: ANSWER_TOKENS };
  const userTokens = tokens - ANSWER_TOKENS + QUESTION_TOKENS;
  const ids = makeConversations({ ...sizes, userTokens }, vocabSize, seed)[0]!.turns[0]!;
  const ask = async (promptTokenIds: readonly number[], maxTokens: number) => {
    const sampling = { maxTokens, ignoreEos: true, temperature: 0 };
    for await (const { final } of cluster.generate({ conversationId, promptTokenIds, sampling, signal })) {
      if (final) return final;
    }
    signal.throwIfAborted();
    throw new Error('A measured turn ended without its last token.');
  };
  const first = await ask(ids.slice(0, tokens - ANSWER_TOKENS), ANSWER_TOKENS);
  const history = [...first.promptTokenIds, ...first.outputTokenIds];
  const { ttftMs } = await ask([...history, ...ids.slice(tokens - ANSWER_TOKENS)], 1);
  await cluster.endConversation(conversationId);
  return ttftMs;
}

/** Where pulling begins to win for good, between the last point where it loses and the next; null if it never changes. */
function crossing(points: Crossover['points']): number | null {
  const whole = points.flatMap(({ tokens, pullMs, recomputeMs }) =>
    pullMs !== null && recomputeMs !== null ? [{ tokens, lead: recomputeMs - pullMs }] : [],
  );
  const last = whole.findLastIndex(({ lead }) => lead <= 0);
  const before = whole[last];
  const after = whole[last + 1];
  if (!before || !after) return null;
  const share = -before.lead / (after.lead - before.lead);
  return before.tokens + share * (after.tokens - before.tokens);
}
