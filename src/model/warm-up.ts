/**
 * Synthetic pieces that together use every kernel that an engine creates first: one, few and many rows, and one row
 * with a long context.
 */
import { DEFAULT_SAMPLING } from '../engine/sampling.ts';
import { NULL_BLOCK } from '../engine/types.ts';
import { ATTENTION_PART } from './kernels/attention-variants.ts';
import type { KernelSet } from './kernels/pass-kernels.ts';
import type { Piece } from './pass/step-inputs.ts';
import type { RunnerLimits, RunnerParts } from './runner-parts.ts';

/** Rows of the warm-up pieces, one for each form of the kernels. The largest also measures their speed. */
const ROWS_OF: Readonly<Record<KernelSet, readonly number[]>> = {
  all: [1, 4, 32],
  prompts: [32],
  'one row': [1],
};

type Parts = Pick<RunnerParts, 'pieceRows' | 'groups'>;
type Limits = Pick<RunnerLimits, 'blockSize' | 'maxModelLen'>;

export function warmUpPieces(parts: Parts, limits: Limits, set: KernelSet): Piece[] {
  const pieces = ROWS_OF[set].map((rows) => warmUpPiece(parts, limits, rows));
  return limits.maxModelLen > ATTENTION_PART && set !== 'prompts'
    ? [...pieces, warmUpPiece(parts, limits, 1, ATTENTION_PART)]
    : pieces;
}

/**
 * A piece of at most `wanted` rows, after `start` tokens. Writes into the null block, which nothing reads.
 */
export function warmUpPiece(
  { pieceRows, groups }: Parts,
  { blockSize, maxModelLen }: Limits,
  wanted: number,
  start = 0,
): Piece {
  const numGroups = groups.groups.length;
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
}

/** Covers every branch of the sampling kernel. */
const warmUpSampling = { ...DEFAULT_SAMPLING, maxTokens: 1, temperature: 1, topK: 2, topP: 0.9 };
