/** A key that identifies a turn within a mode. */
export const turnKey = (of: { conversation_id: string; turn: number }): string =>
  JSON.stringify([of.conversation_id, of.turn]);
