/** Adds to engines' reports of blocks what users want to see: conversation, turn, author and text. */
import type { BlockFact } from '../engine/inspect/block-facts.ts';
import type { OfTurn } from '../measure/spans/spans.ts';

import type { BlockView } from './events.ts';

/** Number of turns whose token ids are remembered, to show blocks as text. */
const REMEMBERED_TURNS = 256;
export const HASH_DIGITS = 16;

/** The tokens in a block: conversation, turn, author, text. */
export type BlockContent = Pick<BlockView, 'conversation' | 'turn' | 'author' | 'index' | 'tokens' | 'text'>;

/** Where a turn's question and answer end, in tokens. */
export interface Bound {
  question: number;
  answer: number;
}

/** The tokens of a conversation up to a turn. */
export interface Sequence {
  conversation: string;
  /** Prompt, and the output so far. */
  tokenIds: number[];
  /** Where each turn's question and answer end, in tokens, starting with the first turn. */
  bounds: Bound[];
  requestIds: string[];
}

export class BlockViews {
  readonly #blockSize: number;
  readonly #decode: (tokenIds: readonly number[]) => string;
  /** By turn id. */
  readonly #sequences = new Map<string, Sequence>();
  /** The turn and side of each remembered turn's requests. */
  readonly #owners = new Map<string, OfTurn>();
  /** Each conversation's last remembered sequence. */
  readonly #lastOf = new Map<string, Sequence>();
  /** Each conversation's last sequence but one, which is restored when a turn fails. */
  readonly #beforeLastOf = new Map<string, Sequence>();

  constructor(blockSize: number, decode: (tokenIds: readonly number[]) => string) {
    this.#blockSize = blockSize;
    this.#decode = decode;
  }

  /**
   * `again`: the conversation's last turn runs again, not a new turn. Returns the turn's number, from 1, and the index of the
   * first prompt token that differs from the conversation so far (null: none).
   */
  turnStarted(
    turnId: string,
    conversation: string,
    promptTokenIds: readonly number[],
    again: boolean = false,
  ): { turn: number; differsAt: number | null } {
    const last = this.#lastOf.get(conversation);
    const before = last?.bounds ?? [];
    const question = promptTokenIds.length;
    const bounds = [...(again ? before.slice(0, -1) : before), { question, answer: question }];
    const sequence = { conversation, tokenIds: [...promptTokenIds], bounds, requestIds: [] };
    this.#sequences.set(turnId, sequence);
    this.#lastOf.set(conversation, sequence);
    if (last) this.#beforeLastOf.set(conversation, last);
    // Entries of failed turns and of resumed conversations count too.
    while (this.#sequences.size > REMEMBERED_TURNS) this.#forgetOldest();
    const differsAt = last?.tokenIds.findIndex((id, i) => promptTokenIds[i] !== id) ?? -1;
    return { turn: bounds.length, differsAt: differsAt < 0 ? null : differsAt };
  }

  /** A failed turn counts as a turn but is not in the next prompt. Its blocks are still shown as its own. */
  turnFailed(turnId: string): void {
    const failed = this.#sequences.get(turnId);
    if (!failed || this.#lastOf.get(failed.conversation) !== failed) return;
    const { conversation } = failed;
    const { tokenIds, bounds } = this.#beforeLastOf.get(conversation) ?? { tokenIds: [], bounds: [] };
    const end = bounds.at(-1)?.answer ?? 0;
    const nothing = { question: end, answer: end };
    const sequence = { conversation, tokenIds, bounds: [...bounds, nothing], requestIds: [] };
    this.#sequences.set(`${turnId} failed`, sequence);
    this.#lastOf.set(conversation, sequence);
  }

  /** Records a request of a known turn. */
  requestStarted(requestId: string, owner: OfTurn): void {
    const sequence = this.#sequences.get(owner.turnId);
    if (!sequence) return;
    sequence.requestIds.push(requestId);
    this.#owners.set(requestId, owner);
  }

  /** null if the turn is not remembered. */
  ownerOf(requestId: string): OfTurn | null {
    return this.#owners.get(requestId) ?? null;
  }

  token(turnId: string, tokenId: number): void {
    const sequence = this.#sequences.get(turnId);
    if (!sequence) return;
    sequence.tokenIds.push(tokenId);
    const last = sequence.bounds.at(-1)!;
    sequence.bounds[sequence.bounds.length - 1] = { ...last, answer: sequence.tokenIds.length };
  }

  conversationEnded(conversation: string): void {
    this.#lastOf.delete(conversation);
    this.#beforeLastOf.delete(conversation);
  }

  /** Continues an earlier conversation: its tokens so far, and where its turns end in them. */
  resume(conversation: string, tokenIds: readonly number[], bounds: readonly Bound[]): void {
    const sequence = { conversation, tokenIds: [...tokenIds], bounds: [...bounds], requestIds: [] };
    this.#sequences.set(`${conversation} before`, sequence);
    this.#lastOf.set(conversation, sequence);
  }

  /** The remembered sequences, oldest first. */
  sequences(): Iterable<Sequence> {
    return this.#sequences.values();
  }

  /** The content of the sequence's block `index` with `tokens` tokens. `sequence`: null if unknown. */
  contentAt(sequence: Sequence | null, index: number, tokens: number): BlockContent {
    const from = index * this.#blockSize;
    const tokenIds = sequence?.tokenIds.slice(from, from + tokens) ?? [];
    const turn = sequence ? sequence.bounds.findIndex(({ answer }) => answer > from) : -1;
    return {
      conversation: sequence?.conversation ?? null,
      turn: turn >= 0 ? turn + 1 : null,
      author: sequence && authorOf(sequence, from, from + tokens),
      index,
      tokens,
      text: tokenIds.length > 0 ? this.#decode(tokenIds) : null,
    };
  }

  view(fact: BlockFact, originMs: number): BlockView {
    const sequence = this.#sequences.get(this.ownerOf(fact.requestId)?.turnId ?? '') ?? null;
    return blockView(fact, this.contentAt(sequence, fact.index, fact.tokens), originMs);
  }

  #forgetOldest(): void {
    const [turnId, sequence] = this.#sequences.entries().next().value!;
    this.#sequences.delete(turnId);
    const { conversation, requestIds } = sequence;
    for (const requestId of requestIds) this.#owners.delete(requestId);
    for (const known of [this.#lastOf, this.#beforeLastOf])
      if (known.get(conversation) === sequence) known.delete(conversation);
  }
}

/** originMs: the time of the fact that becomes 0. */
export function blockView(fact: BlockFact, content: BlockContent, originMs: number): BlockView {
  return {
    id: fact.id,
    state: stateOf(fact),
    origin: fact.origin,
    ...content,
    ...(fact.group === null ? {} : { group: fact.group }),
    // Enough to distinguish blocks by eye.
    hash: fact.hash?.slice(0, HASH_DIGITS) ?? null,
    refCount: fact.refCount,
    // A prefill's blocks are held for the turn's decode, a decode's for the next turn's prefill.
    heldFor: fact.hold && (fact.hold.direction === 'prefill' ? 'decode' : 'prefill'),
    heldUntilMs: fact.hold && fact.hold.deadlineMs - originMs,
    evictions: fact.evictions,
  };
}

function stateOf(fact: BlockFact): BlockView['state'] {
  switch (fact.use) {
    case 'arriving':
      return 'arriving';
    case 'held':
      return 'held';
    case 'running':
      return fact.hit ? 'hit' : fact.origin;
    case 'left':
      if (fact.hash !== null) return 'cached';
      return fact.evicted ? 'evicted' : 'free';
  }
}

function authorOf({ bounds }: Sequence, from: number, to: number): BlockView['author'] {
  let user = false;
  let assistant = false;
  let start = 0;
  for (const { question, answer } of bounds) {
    if (from < question && to > start) user = true;
    if (from < answer && to > question) assistant = true;
    start = answer;
  }
  if (user && assistant) return 'both';
  return user ? 'user' : assistant ? 'assistant' : null;
}
