/** A step over sequences of several lengths in a paged cache, to check the kernels that read and write the cache. */
import { ATTENTION_PART } from '../../model/kernels/attention-variants.ts';
import { cutIntoPieces, type Piece } from '../../model/pass/step-inputs.ts';
import { sum } from '../../sum.ts';
import type { KernelShape } from './kernel-cases.ts';

/** Layers in a block; LAYER is the one used. */
export const LAYERS = 2;
export const LAYER = 1;
/** In one step: a chunk inside a prompt, a decode, a prompt's start, and a decode in a second part of split attention. */
export const SEQUENCES = [
  { start: 37, rows: 7 },
  { start: 63, rows: 1 },
  { start: 0, rows: 21 },
  { start: ATTENTION_PART + 9, rows: 1 },
] as const;

export interface PagedStep {
  piece: Piece;
  numBlocks: number;
  /** Index of a head's first value at a position of a sequence, counted in values from the start of the cache. */
  at(sequence: number, plane: 0 | 1, head: number, position: number): number;
  /** Values in the whole cache. */
  cacheSize: number;
}

/** The sequences' rows as the runner lays them out, in blocks that are neither adjacent nor in order. */
export function pagedStep({ architecture, blockSize }: KernelShape): PagedStep {
  const { numKvHeads, headDim } = architecture;
  const counts = SEQUENCES.map(({ start, rows }) => Math.ceil((start + rows) / blockSize));
  const numBlocks = 2 + 2 * sum(counts);
  let next = numBlocks + 1;
  const tables = counts.map((count) =>
    Array.from({ length: count }, () => {
      next -= 2;
      return next;
    }),
  );
  const requests = SEQUENCES.map(({ start, rows }, i) => ({
    requestId: `${i}`,
    tokenIds: new Array<number>(rows).fill(0),
    startPosition: start,
    blockIds: [tables[i]!],
    sample: null,
  }));
  const [piece] = cutIntoPieces(
    { step: 0, requests },
    { blockSize, numBlocks, vocabSize: 1, maxModelLen: 1024 },
    { rows: 1024, attendedKeys: Number.POSITIVE_INFINITY, logitRows: 1 },
  );
  const plane = numKvHeads * blockSize * headDim;
  return {
    piece: piece!,
    numBlocks,
    at(sequence, kv, head, position) {
      const block = tables[sequence]![Math.floor(position / blockSize)]!;
      const slot = (head * blockSize + (position % blockSize)) * headDim;
      return ((block * LAYERS + LAYER) * 2 + kv) * plane + slot;
    },
    cacheSize: numBlocks * LAYERS * 2 * plane,
  };
}

/** The step's rows with their sequences and positions. */
export const placedRows = () =>
  SEQUENCES.flatMap(({ start, rows }, sequence) =>
    Array.from({ length: rows }, (_, i) => ({ sequence, position: start + i })),
  );
