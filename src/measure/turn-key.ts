/** A turn's name among those of a mode. */
export const turnKey = (of: { conversation_id: string; turn: number }): string =>
  JSON.stringify([of.conversation_id, of.turn]);
