/**
 * Synthetic pieces that together use every kernel that an engine creates first: one, few and many rows, and one row
 * with a long context.
 */
import { DEFAULT_SAMPLING } from '../engine/sampling.ts';
import { NULL_BLOCK } from '../engine/types.ts';
import { ATTENTION_PART } from './kernels/attention-variants.ts';
import type { KernelSet } from './kernels/pass-kernels.ts';
import type { Piece } from './pass/step-inputs.ts';
import type { RunnerParts } from './runner-parts.ts';

/** Rows of the warm-up pieces, one for each form of the kernels. The largest also measures their speed. */
const ROWS_OF: Readonly<Record<KernelSet, readonly number[]>> = {
  all: [1, 4, 32],
  prompts: [32],
  'one row': [1],
};

/**
 * More rows on a GPU, whose form for many rows serves only matrices that occupy it: otherwise a form is first used, and
 * its speed only guessed, in a user's first long prompt. A software adapter has no such form, and would take long.
 */
const MORE_ON_GPU = 1024;

/** All pieces write into the null block, which nothing reads. */
export function warmUpPieces(
  { pieceRows, groups }: Pick<RunnerParts, 'pieceRows' | 'groups'>,
  { blockSize, maxModelLen }: { blockSize: number; maxModelLen: number },
  set: KernelSet,
  software: boolean,
): Piece[] {
  const numGroups = groups.groups.length;
  const pieceAt = (start: number, wanted: number): Piece => {
    const numRows = Math.min(wanted, pieceRows, maxModelLen);
    const longestContext = start + numRows;
    const tokens = new Uint32Array(4 * numRows);
    for (let row = 0; row < numRows; row++)
      tokens.set([0, start + row, NULL_BLOCK * blockSize + (row % blockSize), 0], 4 * row);
    return {
      numRows,
      groups: new Array(numGroups).fill({
        tokens,
        tables: new Uint32Array(Math.ceil(longestContext / blockSize)).fill(NULL_BLOCK),
      }) as unknown as Piece['groups'],
      spans: [{ table: 0, firstRow: 0, rows: numRows }],
      logitRows: Uint32Array.of(numRows - 1),
      samples: [
        { requestId: 'warm-up', sample: { params: warmUpSampling, outputIndex: 0, forbiddenTokenIds: [] } },
      ],
      requestIds: ['warm-up'],
      attendedKeys: numRows * start + (numRows * (numRows + 1)) / 2,
      longestContext,
    };
  };
  const many = set === 'one row' || software ? [] : [MORE_ON_GPU];
  const pieces = [...ROWS_OF[set], ...many].map((rows) => pieceAt(0, rows));
  return maxModelLen > ATTENTION_PART && set !== 'prompts' ? [...pieces, pieceAt(ATTENTION_PART, 1)] : pieces;
}

/** Covers every branch of the sampling kernel. */
const warmUpSampling = { ...DEFAULT_SAMPLING, maxTokens: 1, temperature: 1, topK: 2, topP: 0.9 };
