/** Turns for timing a simulation: a trace's, read at once, or generated ones, on demand. */
import { parseRunConfig } from '../../../config/run.ts';
import { sumOf } from '../../../sum.ts';
import { Random } from '../../../workload/random.ts';
import { traceTurns } from '../../../workload/traces/turns.ts';
import type { Segment, TraceTurn } from '../../../workload/traces/types.ts';
import { piecesOf } from '../../node/user-files.ts';
import { openNamedTrace } from '../../trace/open.ts';

/** Throws ConfigError. `limit`: most turns to read; null: all. */
export async function readTurns(file: string, limit: number | null): Promise<TraceTurn[]> {
  const config = parseRunConfig({ trace: file, limit });
  const { requests, scale, bad } = await openNamedTrace(config, { readTextPieces: piecesOf }, new Set());
  const turns: TraceTurn[] = [];
  for await (const turn of traceTurns(requests, { scale, maxModelLen: null, bad })) turns.push(turn);
  return turns;
}

const MOST_TURNS = 5;
/** Mean numbers of tokens. */
const FIRST_MESSAGE = 2000;
const LATER_MESSAGE = 300;
const ANSWER = 150;
const THINK_MS = 5000;
/** Contents of a conversation: one message and one answer per turn. */
const KEYS = 2 * MOST_TURNS;

/** Generates turns of conversations that arrive at `perSecond` and have one to MOST_TURNS turns. Keeps none. */
export function* generatedTurns(
  count: number,
  { perSecond, seed }: { perSecond: number; seed: number },
): Generator<TraceTurn> {
  const random = new Random(seed + 1);
  const length = (mean: number) => 1 + Math.round(random.exponential(mean));
  let index = 0;
  let atMs = 0;
  for (let conversation = 0; index < count; conversation++) {
    atMs += random.exponential(1000 / perSecond);
    const turns = random.int(1, MOST_TURNS);
    let history: readonly Segment[] = [];
    for (let turn = 1; turn <= turns && index < count; turn++) {
      const key = KEYS * conversation + 2 * turn;
      const message = { key, from: 0, length: length(turn === 1 ? FIRST_MESSAGE : LATER_MESSAGE) };
      const answer = { key: key + 1, from: 0, length: length(ANSWER) };
      const prompt = [...history, message];
      history = [...prompt, answer];
      yield {
        ...{ index, line: index + 1, conversationId: `c${conversation}`, turn, prompt, answer: [answer] },
        arrival:
          turn === 1 ? { kind: 'at', ms: atMs } : { kind: 'after', index: index - 1, thinkMs: THINK_MS },
        inputTokens: sumOf(prompt, (segment) => segment.length),
        outputTokens: answer.length,
      };
      index++;
    }
  }
}
