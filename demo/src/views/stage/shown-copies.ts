/** Selects the copies for the figures between the grids: those that brought what the grids show. No DOM. */
import { talksOf } from '../../session/conversation/conversation.ts';
import type { Mode, TransferView, TurnView } from '../../session/types.ts';

/** The turn and conversation of a request: 'chat-1#2.33-d-…' belongs to turn 'chat-1#2.33' of 'chat-1'. */
function turnOf({ requestId }: Pick<TransferView, 'requestId'>): { turnId: string; conversation: string } {
  const [turnId, conversation] = /^(.*)#\d+\.\d+/.exec(requestId) ?? [requestId, requestId];
  return { turnId: turnId!, conversation: conversation! };
}

export interface ShownAt {
  turns: readonly TurnView[];
  /** The engines' current mode; null: past time is shown, perhaps in another mode. */
  mode: Mode | null;
  /** Nothing runs: the grids show the user's conversations, even if an experiment ran last. */
  idle: boolean;
}

/** For each conversation, the copies of its last turn, or of that turn's replay into engines that were emptied. */
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
  // Engines that changed their mode were emptied.
  const gone = new Set(
    turns.filter((turn) => mode !== null && turn.mode !== mode).map((turn) => turn.turnId),
  );
  return all.filter((copy) => {
    const { conversation, turnId } = turnOf(copy);
    if (theirs ? !talks.includes(conversation) : conversation !== last) return false;
    return newest.get(conversation)!.turnId === turnId && !gone.has(turnId);
  });
}

/** Whether these copies are those of a turn that was served again: the conversation does not list it. */
export const areOfReplay = (
  shown: readonly Pick<TransferView, 'requestId'>[],
  turns: readonly Pick<TurnView, 'turnId'>[],
): boolean =>
  shown.length > 0 && !shown.some((copy) => turns.some(({ turnId }) => turnId === turnOf(copy).turnId));
