/** Made-up pieces that between them use every pipeline: one, a few and many rows, with and without several requests. */
import { NULL_BLOCK } from '../engine/types.ts';
import type { Piece } from './step-inputs.ts';

/** Rows of the warm-up pieces: one for each form of the kernels; the largest also tells how fast they are. */
const WARM_UP_ROWS = [1, 4, 32];

/** All write into the null block, which nothing reads. */
export function warmUpPieces(
  { pieceRows }: { pieceRows: number },
  { blockSize, maxModelLen }: { blockSize: number; maxModelLen: number },
): Piece[] {
  return WARM_UP_ROWS.map((wanted) => {
    const numRows = Math.min(wanted, pieceRows, maxModelLen);
    const tokens = new Uint32Array(4 * numRows);
    for (let row = 0; row < numRows; row++)
      tokens.set([0, row, NULL_BLOCK * blockSize + (row % blockSize), 0], 4 * row);
    return {
      numRows,
      tokens,
      tables: new Uint32Array(Math.ceil(numRows / blockSize)).fill(NULL_BLOCK),
      spans: [{ table: 0, firstRow: 0, rows: numRows }],
      logitRows: Uint32Array.of(numRows - 1),
      samples: [
        { requestId: 'warm-up', sample: { params: warmUpSampling, outputIndex: 0, forbiddenTokenIds: [] } },
      ],
      requestIds: ['warm-up'],
      attendedKeys: (numRows * (numRows + 1)) / 2,
    };
  });
}

/** Every branch of the sampling kernel. */
const warmUpSampling = {
  maxTokens: 1,
  minTokens: 0,
  temperature: 1,
  topK: 2,
  topP: 0.9,
  seed: 0,
  stopTokenIds: [],
  ignoreEos: false,
};
