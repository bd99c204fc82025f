/**
 * Links between words in the chat and blocks of P and D, for pointing. Found by the blocks' own text, so a word that is in
 * no block any more has no place.
 */
import type { BlockView, Part, Pointed, Role, SessionState, TurnView } from './types.ts';

/** Blocks by conversation and by place in it (in blocks, from 0). The same place has the same words in P and in D. */
export interface Lit {
  conversation: string;
  places: ReadonlySet<number>;
}

interface Piece {
  place: number;
  start: number;
  end: number;
}

/** A conversation's text from its blocks, from the first one up to the first missing place. */
function textOf(state: SessionState, conversation: string): { text: string; pieces: Piece[] } {
  const byPlace = new Map<number, BlockView>();
  for (const role of ['prefill', 'decode'] as const) {
    for (const block of state.drawn[role].value?.blocks.value ?? []) {
      const { index, text } = block;
      if (block.conversation !== conversation || index === null || text === null) continue;
      const known = byPlace.get(index);
      // The last block may be fuller on one engine; the block of the newer turn has the current text.
      const newer = (block.turn ?? 0) - (known?.turn ?? 0) || block.tokens - (known?.tokens ?? 0);
      if (!known || newer > 0) byPlace.set(index, block);
    }
  }
  let text = '';
  const pieces: Piece[] = [];
  for (let place = 0; byPlace.has(place); place++) {
    const piece = byPlace.get(place)!.text!;
    pieces.push({ place, start: text.length, end: text.length + piece.length });
    text += piece;
  }
  return { text, pieces };
}

interface Said {
  turnId: string;
  part: Part;
  /** Offset in the conversation's text. */
  start: number;
  length: number;
}

/** Offsets of questions and answers in the text, in order. Texts that are not found are omitted. */
function placesOf(text: string, turns: readonly TurnView[]): Said[] {
  const found: Said[] = [];
  let from = 0;
  for (const { turnId, question, answer } of turns) {
    for (const [part, said] of [
      ['question', question],
      ['answer', answer.trim()],
    ] as const) {
      const start = said === '' ? -1 : text.indexOf(said, from);
      if (start < 0) continue;
      found.push({ turnId, part, start, length: said.length });
      from = start + said.length;
    }
  }
  return found;
}

function said(state: SessionState, conversation: string) {
  const { text, pieces } = textOf(state, conversation);
  const turns = state.turns.value.filter((turn) => turn.conversation === conversation);
  return { text, pieces, parts: placesOf(text, turns) };
}

type Word = Extract<Pointed, { at: 'word' }>;

/** The word that begins at `start`; '' if its turn is gone. */
export function wordOf(state: SessionState, { turnId, part, start }: Word): string {
  const turn = state.turns.value.find((one) => one.turnId === turnId);
  return /^\S+/.exec(turn?.[part].trim().slice(start) ?? '')?.[0] ?? '';
}

/** Ids of the drawn engine's blocks that have what is pointed at. */
export function litPlaces(state: SessionState, pointed: Pointed, role: Role): number[] {
  const lit = blocksOf(state, pointed);
  const blocks = state.drawn[role].value?.blocks.value ?? [];
  return blocks.filter((block) => lit !== null && isLit(lit, block)).map(({ id }) => id);
}

export const isLit = ({ conversation, places }: Lit, block: BlockView): boolean =>
  block.text !== null && block.conversation === conversation && places.has(block.index ?? -1);

/** The blocks of what is pointed at now, in both engines; null: nothing is pointed at, or no block has it. */
export const litBlocks = (state: SessionState): Lit | null =>
  state.pointed.value && blocksOf(state, state.pointed.value);

function blocksOf(state: SessionState, pointed: Pointed): Lit | null {
  if (pointed.at === 'block') {
    const block = state.drawn[pointed.role].value?.blocks.value[pointed.id];
    if (!block || block.conversation === null || block.index === null) return null;
    return { conversation: block.conversation, places: new Set([block.index]) };
  }
  const turn = state.turns.value.find(({ turnId }) => turnId === pointed.turnId);
  if (!turn) return null;
  const { pieces, parts } = said(state, turn.conversation);
  const part = parts.find((one) => one.turnId === pointed.turnId && one.part === pointed.part);
  if (!part) return null;
  const start = part.start + pointed.start;
  const end = start + wordOf(state, pointed).length;
  const places = pieces.filter((piece) => piece.start < end && piece.end > start).map(({ place }) => place);
  return { conversation: turn.conversation, places: new Set(places) };
}

/** By turn and part: start and end of the characters that are in the highlighted blocks. */
export type LitWords = ReadonlyMap<string, readonly [from: number, to: number]>;

export const litKey = ({ turnId, part }: Pick<Said, 'turnId' | 'part'>): string => `${turnId} ${part}`;

export function litWords(state: SessionState): LitWords {
  const lit = litBlocks(state);
  const words = new Map<string, readonly [number, number]>();
  if (!lit) return words;
  const { pieces, parts } = said(state, lit.conversation);
  const own = pieces.filter(({ place }) => lit.places.has(place));
  if (own.length === 0) return words;
  const [from, to] = [own[0]!.start, own.at(-1)!.end];
  for (const part of parts) {
    const [a, b] = [Math.max(from, part.start), Math.min(to, part.start + part.length)];
    if (b > a) words.set(litKey(part), [a - part.start, b - part.start]);
  }
  return words;
}
