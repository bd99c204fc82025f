/**
 * Writes a trace as lines of Mooncake's format. What the file says about conversations becomes session_id and delay,
 * the names that NVIDIA's Dynamo and AIPerf know. Links that were inferred from prompts are left to be inferred again.
 */

import { ConfigError } from '../../errors.ts';
import { contentKind } from './content.ts';
import { MOONCAKE_BLOCK } from './formats/mooncake.ts';
import { IdMap } from './ids.ts';
import { scaledBlock } from './scale.ts';
import { sliceSegments } from './tokens.ts';
import type { Segment, TraceRequest, TraceScale, TraceTurn } from './types.ts';

/** Most conversations of which something is kept for a later turn. */
const MOST_PROMPTS = 1 << 16;

interface MooncakeRow {
  timestamp?: number;
  input_length: number;
  output_length: number;
  hash_ids: number[];
  session_id?: string;
  delay?: number;
}

export class MooncakeWriter {
  readonly #scale: TraceScale;
  /**
   * New ids, in the order in which they come: other readers take 32 bits, and blocks without an id need one that no
   * other has.
   */
  readonly #renumbered = new IdMap();
  /** The last prompt of each conversation. */
  readonly #lastPrompts = new Map<string, { key: number; tokens: number; ids: readonly number[] }>();
  /** Last blocks of prompts, by request, that were not full before they were rounded up, and are now. */
  readonly #filled = new Map<number, { block: number; content: readonly Segment[]; id: number }>();
  /** Conversations for which the trace says when the last answer ended. */
  readonly #answered = new Set<string>();
  #ids = 0;
  #blockSize: number | null = null;

  constructor(scale: TraceScale) {
    this.#scale = scale;
  }

  /** Tokens that an id stands for; as many as in Mooncake's traces if the trace has no ids of its own. */
  get blockSize(): number {
    return this.#blockSize ?? MOONCAKE_BLOCK;
  }

  /**
   * The line of a turn and its request, with its line end. Call it in the trace's order. Throws ConfigError if ids of
   * one file would stand for different lengths.
   */
  line(turn: TraceTurn, request: TraceRequest): string {
    const { arrival, conversationId } = turn;
    const { arrivalMs, answeredMs, origin, hashIds } = request;
    const blockSize = hashIds ? scaledBlock(this.#scale) : MOONCAKE_BLOCK;
    this.#blockSize ??= blockSize;
    if (blockSize !== this.#blockSize)
      throw new ConfigError(
        `line ${request.line} has ${hashIds ? '' : 'no '}hash_ids and those before it have ${hashIds ? 'none' : 'some'}: an id would stand for ${this.#blockSize} tokens in some lines and for ${blockSize} in others; convert lines with hash_ids and lines without to separate files`,
      );
    // Scaled lengths are rounded, so links could not be inferred again.
    const said = origin.kind !== 'unsaid' || this.#scale.lengthDivisor > 1;
    // The time alone would lose what the file says: when the answer before it ended.
    const afterAnswer = this.#answered.delete(conversationId);
    if (answeredMs !== null) this.#answered.add(conversationId);
    forgetOldest(this.#answered);
    const delayed =
      arrivalMs === null || afterAnswer || (origin.kind === 'session' && origin.delayMs !== null);
    const row: MooncakeRow = {
      ...(arrivalMs === null ? {} : { timestamp: Math.round(arrivalMs / this.#scale.speedUp) }),
      input_length: turn.inputTokens,
      output_length: turn.outputTokens,
      hash_ids: hashIds ? this.#renumbers(turn, request, hashIds) : this.#idsOf(turn),
      ...(said ? { session_id: conversationId } : {}),
      ...(delayed && arrival.kind === 'after' ? { delay: Math.round(1000 * arrival.thinkMs) / 1000 } : {}),
    };
    return `${JSON.stringify(row)}\n`;
  }

  /**
   * The trace gives a last block that is not full another id in the next prompt, which continues it. If scaling filled
   * it, both have the same content and thus the same id.
   */
  #renumbers(
    { index, arrival, inputTokens, prompt }: TraceTurn,
    request: TraceRequest,
    hashIds: readonly number[],
  ): number[] {
    const size = scaledBlock(this.#scale);
    const contentOf = (block: number) => sliceSegments(prompt, block * size, (block + 1) * size);
    const before = arrival.kind === 'after' ? this.#filled.get(arrival.index) : undefined;
    if (before) {
      const continued = hashIds[before.block];
      const isNew = continued !== undefined && this.#renumbered.get(continued) === undefined;
      if (isNew && areEqual(contentOf(before.block), before.content))
        this.#renumbered.set(continued, before.id);
    }
    const ids = hashIds.map((id) => this.#renumber(id));
    if (inputTokens % size === 0 && request.inputTokens % this.#scale.traceBlockSize !== 0) {
      const block = ids.length - 1;
      this.#filled.set(index, { block, content: contentOf(block), id: ids[block]! });
      forgetOldest(this.#filled);
    }
    return ids;
  }

  #renumber(id: number): number {
    const known = this.#renumbered.get(id) ?? this.#ids++;
    this.#renumbered.set(id, known);
    return known;
  }

  /** Blocks that the conversation's last prompt filled keep their ids; all others are new. */
  #idsOf({ conversationId, inputTokens, prompt }: TraceTurn): number[] {
    const before = this.#lastPrompts.get(conversationId);
    this.#lastPrompts.delete(conversationId);
    const continues = before && contentKind(prompt[0]!) === 'prompt' && prompt[0]!.key === before.key;
    const common = continues ? Math.floor(Math.min(before.tokens, inputTokens) / MOONCAKE_BLOCK) : 0;
    const ids = Array.from({ length: Math.ceil(inputTokens / MOONCAKE_BLOCK) }, (_, block) =>
      block < common ? before!.ids[block]! : this.#ids++,
    );
    this.#lastPrompts.set(conversationId, { key: prompt[0]!.key, tokens: inputTokens, ids });
    forgetOldest(this.#lastPrompts);
    return ids;
  }
}

/** Keeps at most MOST_PROMPTS of what is kept for later turns. */
function forgetOldest<K>(kept: Set<K> | Map<K, unknown>): void {
  const [oldest] = kept.keys();
  if (kept.size > MOST_PROMPTS) kept.delete(oldest!);
}

const areEqual = (a: readonly Segment[], b: readonly Segment[]): boolean =>
  a.length === b.length &&
  a.every(({ key, from, length }, i) => key === b[i]!.key && from === b[i]!.from && length === b[i]!.length);
