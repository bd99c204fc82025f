/** A key that identifies a turn within a mode. */
export const turnKey = (of: { conversation_id: string; turn: number }): string =>
  JSON.stringify([of.conversation_id, of.turn]);

/** 'turn 3', or 'turn 3 of random-1' if there are several conversations. */
export const turnName = (of: { conversation_id: string; turn: number }, several: boolean): string =>
  `turn ${of.turn}${several ? ` of ${of.conversation_id}` : ''}`;
