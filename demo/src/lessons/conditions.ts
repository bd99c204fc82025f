/** Checks on the session's state that decide whether a lesson's step was seen. No DOM. */

import { isConversation } from '../session/conversation/conversation.ts';
import type { SessionState, TurnReport, TurnView } from '../session/types.ts';
import { verdictOf } from '../views/race/verdict.ts';
import type { Seen } from './types.ts';

export function lookAt(state: SessionState, sinceMs: number, earlier: readonly TurnView[] = []): Seen {
  const turns = state.turns.value.filter((turn) => isConversation(turn) && turn.startMs >= sinceMs);
  return { state, turns, sinceMs, earlier };
}

/** Turns that ended without an error, with their reports. */
export const ended = ({ turns }: Pick<Seen, 'turns'>): (TurnView & { result: TurnReport })[] =>
  turns.filter((turn): turn is TurnView & { result: TurnReport } => turn.result !== null);

/** The third answer has arrived. */
export const hasThreeTurns = (seen: Pick<Seen, 'turns'>): boolean => ended(seen).length >= 3;

export const pulled = (seen: Pick<Seen, 'turns'>): boolean =>
  ended(seen).some(({ result }) => result.pulled_tokens > 0);

export const handedOver = (seen: Pick<Seen, 'turns'>): boolean =>
  ended(seen).some(({ result }) => result.transfer.p_to_d.blocks > 0);

export const hit = (seen: Pick<Seen, 'turns'>): boolean =>
  ended(seen).some(({ result }) => result.local_hit_tokens > 0);

/** A turn in which P computed at least what D had generated the turn before. */
export function recomputed(seen: Pick<Seen, 'turns'>): boolean {
  const turns = ended(seen);
  return turns.some(({ result, conversation, turn }) => {
    const before = turns.find((other) => other.conversation === conversation && other.turn === turn - 1);
    return (
      before !== undefined &&
      result.pulled_tokens === 0 &&
      result.computed_tokens >= before.result.output_tokens
    );
  });
}

/** Which way won the race that started after the lesson did; null until it has ended. */
export function raceWinner({ state, sinceMs }: Seen): 'pull' | 'recompute' | 'neither' | null {
  const race = state.race.value;
  if (!race || (race.pull.startedMs ?? 0) < sinceMs) return null;
  return verdictOf(race)?.winner ?? null;
}

/** Index of a choice: pulling, computing again, no difference. */
export function raced(seen: Seen): number | null {
  const winner = raceWinner(seen);
  return winner && ['pull', 'recompute', 'neither'].indexOf(winner);
}

/** An answer after an edited history has the word; with `pulledMore`, only if its turn pulled. */
export const editedAnswerHas = (seen: Pick<Seen, 'turns'>, word: string, pulledMore: boolean): boolean =>
  ended(seen).some(
    ({ edited, answer, result }) =>
      edited && answer.includes(word) && (!pulledMore || result.pulled_tokens > 0),
  );
