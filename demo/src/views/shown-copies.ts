/** Which copies the figures between the grids are of: those that brought what the grids have. No DOM. */
import { talksOf } from '../session/conversation.ts';
import type { Mode, TransferView, TurnView } from '../session/types.ts';

/** The turn whose request it was, and the conversation: 'chat-1#2.33-d-…' is of turn 'chat-1#2.33'. */
function turnOf({ requestId }: Pick<TransferView, 'requestId'>): { turnId: string; conversation: string } {
  const [turnId, conversation] = /^(.*)#\d+\.\d+/.exec(requestId) ?? [requestId, requestId];
  return { turnId: turnId!, conversation: conversation! };
}

export interface ShownAt {
  turns: readonly TurnView[];
  /** What the engines are in now; null: they may have been in another then. */
  mode: Mode | null;
  /** Nothing runs: the grids have the user's conversations, whatever was measured last. */
  idle: boolean;
}

/** Of each conversation the copies of its last turn, or of its last turn told once more to engines that were emptied. */
export function shownCopies<T extends Pick<TransferView, 'requestId' | 'startMs'>>(
  all: readonly T[],
  { turns, mode, idle }: ShownAt,
): T[] {
  const talks = talksOf(turns);
  const newest = new Map<string, { turnId: string; startMs: number }>();
  const hear = (conversation: string, turnId: string, startMs: number) => {
    if (startMs >= (newest.get(conversation)?.startMs ?? Number.NEGATIVE_INFINITY))
      newest.set(conversation, { turnId, startMs });
  };
  for (const { conversation, turnId, startMs } of turns) hear(conversation, turnId, startMs);
  for (const copy of all) hear(turnOf(copy).conversation, turnOf(copy).turnId, copy.startMs);
  const last = [...newest].reduce<string | null>(
    (found, [conversation, { startMs }]) =>
      found !== null && newest.get(found)!.startMs > startMs ? found : conversation,
    null,
  );
  const theirs = idle || (last !== null && talks.includes(last));
  // Engines that go on in another mode were emptied.
  const gone = new Set(
    turns.filter((turn) => mode !== null && turn.mode !== mode).map((turn) => turn.turnId),
  );
  return all.filter((copy) => {
    const { conversation, turnId } = turnOf(copy);
    if (theirs ? !talks.includes(conversation) : conversation !== last) return false;
    return newest.get(conversation)!.turnId === turnId && !gone.has(turnId);
  });
}
