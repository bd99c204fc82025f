/**
 * What the prompts of a trace contain. A hash id is a content of its own, except for the first blocks after those that
 * an earlier prompt filled: these contain that prompt's last part and the answer to it, so that generated KV is found
 * again.
 */
import { IdSet } from './ids.ts';
import { scaledBlock } from './scale.ts';
import { sliceSegments } from './tokens.ts';
import type { Segment, TraceRequest, TraceScale } from './types.ts';

/** What a later prompt can continue. */
export interface Held {
  inputTokens: number;
  outputTokens: number;
  /** Blocks of the trace that the prompt fills. */
  fullBlocks: number;
  /** The prompt from its first block that is not full on; all of it without hash ids. */
  tail: readonly Segment[];
  answer: readonly Segment[];
}

/** Keys of three kinds of contents, each with numbers of its own. */
const key = {
  block: (id: number) => 4 * id,
  answer: (index: number) => 4 * index + 1,
  prompt: (index: number) => 4 * index + 2,
};

const KINDS = ['block', 'answer', 'prompt'] as const;
export const contentKind = ({ key }: Segment): (typeof KINDS)[number] => KINDS[key % 4]!;

export const answerTo = (index: number, length: number): Segment[] => [
  { key: key.answer(index), from: 0, length },
];

/**
 * A prompt without hash ids: the turn before, as far as it fits, then something new. `inputTokens` is scaled, as are
 * the lengths in `before`.
 */
export function freshPrompt(index: number, inputTokens: number, before: Held | null): Segment[] {
  // A prompt always ends with something new.
  const history = before ? Math.min(before.inputTokens + before.outputTokens, inputTokens - 1) : 0;
  const known = before ? sliceSegments([...before.tail, ...before.answer], 0, history) : [];
  return [...known, { key: key.prompt(index), from: 0, length: inputTokens - history }];
}

export class HashedContent {
  /** Contents of the blocks that hold (part of) an answer, each a whole block, by hash id. */
  readonly #special = new Map<number, readonly Segment[]>();
  readonly #knownIds = new IdSet();
  readonly #blockSize: number;

  constructor(scale: TraceScale) {
    this.#blockSize = scaledBlock(scale);
  }

  /** `before`: the turn whose full blocks this prompt begins with; null: it follows none. */
  prompt(
    hashIds: NonNullable<TraceRequest['hashIds']>,
    inputTokens: number,
    before: Held | null,
  ): readonly Segment[][] {
    if (before) this.#assignAnswer(hashIds, before);
    const size = this.#blockSize;
    return hashIds.map((id, block) => {
      this.#knownIds.add(id);
      const length = Math.min(size, inputTokens - block * size);
      const special = this.#special.get(id);
      return special ? sliceSegments(special, 0, length) : [{ key: key.block(id), from: 0, length }];
    });
  }

  /** Assigns the end of `before` to the ids that have not occurred yet. */
  #assignAnswer(
    hashIds: readonly number[],
    { fullBlocks, tail, answer, inputTokens, outputTokens }: Held,
  ): void {
    const size = this.#blockSize;
    const known = [...tail, ...answer];
    const knownEnd = inputTokens + outputTokens;
    for (let block = fullBlocks; block < hashIds.length && block * size < knownEnd; block++) {
      const id = hashIds[block]!;
      // An id that has a content keeps it.
      if (this.#knownIds.has(id)) return;
      const start = block * size;
      const end = Math.min(start + size, knownEnd);
      const offset = fullBlocks * size;
      const held = sliceSegments(known, start - offset, end - offset);
      const rest = { key: key.block(id), from: end - start, length: start + size - end };
      this.#special.set(id, rest.length > 0 ? [...held, rest] : held);
    }
  }
}
