/** Turn views from events. */
import type { ResumedTurn } from '../../../src/recording/events.ts';
import type { SessionEvent, TurnView } from './types.ts';

/** A turn from before a reload: only its text and its result are known. */
export function resumed(conversation: string, { result, ...turn }: ResumedTurn, atMs: number): TurnView {
  const none = { edited: false, differsAt: null, edits: [], firstTokenMs: null, error: null };
  const said = { answer: result.text ?? '', tokens: result.output_tokens, result };
  return { ...turn, ...none, ...said, conversation, startMs: atMs, endMs: atMs };
}

type TurnEvent = Extract<SessionEvent, { turnId: string }>;

export function withTurn(before: readonly TurnView[], event: TurnEvent): readonly TurnView[] {
  const { turnId, atMs } = event;
  if (event.kind === 'turn_started') {
    const { conversation, turn, mode, question, edited, differsAt = null } = event;
    const fresh: TurnView = {
      turnId,
      conversation,
      turn,
      mode,
      question,
      edited,
      differsAt,
      edits: [],
      answer: '',
      tokens: 0,
      startMs: atMs,
      firstTokenMs: null,
      endMs: null,
      result: null,
      error: null,
    };
    return [...before, fresh];
  }
  const change = (turn: TurnView): TurnView => {
    switch (event.kind) {
      case 'token':
        return {
          ...turn,
          answer: turn.answer + event.text,
          tokens: event.tokens,
          firstTokenMs: turn.firstTokenMs ?? atMs,
        };
      case 'turn_ended':
        return {
          ...turn,
          answer: event.result.text ?? turn.answer,
          tokens: event.result.output_tokens,
          endMs: atMs,
          result: event.result,
        };
      case 'turn_failed':
        return { ...turn, endMs: atMs, error: event.message };
    }
  };
  return before.map((turn) => (turn.turnId === turnId ? change(turn) : turn));
}
