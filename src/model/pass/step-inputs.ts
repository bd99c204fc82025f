/**
 * Turns a scheduled batch into pieces: rows with positions and slots, block tables, attention tiles, and rows that get
 * logits. One pass through the layers computes one piece. A long prompt is cut into several consecutive pieces. That
 * changes no bit of the result, since each piece reads earlier K and V from the cache. Plain data, no GPU.
 */
import { written } from '../../config/token-ids.ts';
import { type BlockId, NULL_BLOCK, type ScheduledBatch, type ScheduledRequest } from '../../engine/types.ts';
import { invariant } from '../../errors.ts';
import { EVERY_KEY } from '../architecture/layer-attention.ts';
import type { SampleRequest } from './sampling.ts';

export interface PieceLimits {
  /** Most token rows of a piece. */
  rows: number;
  /** Most keys attended to, summed over rows. A piece always has at least one row. */
  attendedKeys: number;
  /** Most rows of a piece that get logits. */
  logitRows: number;
}

export interface PieceShape {
  blockSize: number;
  numBlocks: number;
  vocabSize: number;
  maxModelLen: number;
  /** By KV cache group: most keys that a token sees. Absent: one group with full attention. */
  windows?: readonly number[];
}

/** Consecutive tokens of one request. */
interface Span {
  request: ScheduledRequest;
  /** Index of its first token in tokenIds. */
  first: number;
  count: number;
}

export interface Sample {
  requestId: string;
  sample: SampleRequest;
}

/** Inputs that depend on the blocks of one KV cache group. */
export interface GroupInputs {
  /** [numRows] of: token id, position, slot, 0. */
  tokens: Uint32Array<ArrayBuffer>;
  /** The block tables of the piece's requests, concatenated. */
  tables: Uint32Array<ArrayBuffer>;
}

export interface Piece {
  numRows: number;
  /** By KV cache group. */
  groups: readonly [GroupInputs, ...GroupInputs[]];
  /** By span: start of its block table, its first row, and its number of rows. */
  spans: readonly { table: number; firstRow: number; rows: number }[];
  /** Rows that get logits; `samples` has the same order. */
  logitRows: Uint32Array<ArrayBuffer>;
  samples: readonly Sample[];
  /** The requests with rows in this piece. */
  requestIds: readonly string[];
  /** Keys attended to under full attention, summed over rows. For a window, use attendedKeys(). */
  attendedKeys: number;
  /** The most keys that any row attends to. */
  longestContext: number;
}

/** Cuts a batch into pieces within the limits, in the batch's order. */
export function cutIntoPieces(batch: ScheduledBatch, shape: PieceShape, limits: PieceLimits): Piece[] {
  const window = Math.max(...windowsOf(shape));
  const pieces: Piece[] = [];
  let spans: Span[] = [];
  let rows = 0;
  let keys = 0;
  let logitRows = 0;
  const close = () => {
    if (spans.length > 0) pieces.push(buildPiece(spans, shape));
    spans = [];
    rows = 0;
    keys = 0;
    logitRows = 0;
  };
  for (const request of batch.requests) {
    checkRequest(request, shape);
    let open: Span | null = null;
    for (let i = 0; i < request.tokenIds.length; i++) {
      const attended = Math.min(request.startPosition + i + 1, window);
      const wantsLogits = request.sample !== null && i === request.tokenIds.length - 1;
      const full =
        rows + 1 > limits.rows ||
        (rows > 0 && keys + attended > limits.attendedKeys) ||
        (wantsLogits && logitRows + 1 > limits.logitRows);
      if (full) {
        close();
        open = null;
      }
      if (open) open.count += 1;
      else {
        open = { request, first: i, count: 1 };
        spans.push(open);
      }
      rows += 1;
      keys += attended;
      if (wantsLogits) logitRows += 1;
    }
  }
  close();
  return pieces;
}

const windowsOf = ({ windows = [EVERY_KEY] }: PieceShape): readonly number[] => windows;

function buildPiece(spans: readonly Span[], shape: PieceShape): Piece {
  const numRows = spans.reduce((sum, span) => sum + span.count, 0);
  const groups = windowsOf(shape).map((_, group) => groupInputs(spans, group, numRows, shape.blockSize));
  const logitRows: number[] = [];
  const samples: Sample[] = [];
  let attendedKeys = 0;
  let longestContext = 0;
  let row = 0;
  let table = 0;
  const placed = spans.map(({ request, first, count }) => {
    const placement = { table, firstRow: row, rows: count };
    const start = request.startPosition + first;
    const end = start + count;
    longestContext = Math.max(longestContext, end);
    table += Math.ceil(end / shape.blockSize);
    attendedKeys += (count * (start + 1 + end)) / 2;
    row += count;
    if (request.sample && first + count === request.tokenIds.length) {
      logitRows.push(row - 1);
      samples.push({ requestId: request.requestId, sample: request.sample });
    }
    return placement;
  });
  return {
    numRows,
    groups: groups as [GroupInputs, ...GroupInputs[]],
    spans: placed,
    logitRows: Uint32Array.from(logitRows),
    samples,
    requestIds: [...new Set(spans.map(({ request }) => request.requestId))],
    attendedKeys,
    longestContext,
  };
}

function groupInputs(spans: readonly Span[], group: number, numRows: number, blockSize: number): GroupInputs {
  const tokens = new Uint32Array(4 * numRows);
  const tables: BlockId[] = [];
  let row = 0;
  for (const { request, first, count } of spans) {
    const table = request.blockIds[group]!;
    const end = request.startPosition + first + count;
    for (let b = 0; b < Math.ceil(end / blockSize); b++) tables.push(table[b]!);
    for (let i = first; i < first + count; i++) {
      const position = request.startPosition + i;
      const slot = table[Math.floor(position / blockSize)]! * blockSize + (position % blockSize);
      tokens.set([request.tokenIds.at(i)!, position, slot, 0], 4 * row);
      row += 1;
    }
  }
  return { tokens, tables: Uint32Array.from(tables) };
}

/** Keys attended to in a layer with this window, summed over the piece's rows. */
export function attendedKeys(piece: Piece, window: number): number {
  if (window >= piece.longestContext) return piece.attendedKeys;
  const { tokens } = piece.groups[0];
  let sum = 0;
  for (let row = 0; row < piece.numRows; row++) sum += Math.min(tokens[4 * row + 1]! + 1, window);
  return sum;
}

/**
 * The attention kernel's work list. A tile is up to `tileRows` flattened rows (token * group + query head in its group)
 * of one span. [tiles] of: start of the block table, the span's first row, first flattened row, count.
 */
export function attentionTiles(
  piece: Pick<Piece, 'spans'>,
  group: number,
  tileRows: number,
): Uint32Array<ArrayBuffer> {
  const tiles: number[] = [];
  for (const { table, firstRow, rows } of piece.spans) {
    for (let flat = 0; flat < rows * group; flat += tileRows) {
      tiles.push(table, firstRow, flat, Math.min(tileRows, rows * group - flat));
    }
  }
  return Uint32Array.from(tiles);
}

function checkRequest(request: ScheduledRequest, shape: PieceShape): void {
  const { requestId, tokenIds, startPosition, blockIds } = request;
  const end = startPosition + tokenIds.length;
  invariant(tokenIds.length > 0, () => `${requestId} was scheduled without tokens`);
  invariant(
    end <= shape.maxModelLen,
    () => `${requestId} was scheduled to position ${end} of ${shape.maxModelLen}`,
  );
  const windows = windowsOf(shape);
  invariant(
    blockIds.length === windows.length,
    () => `${requestId} has ${blockIds.length} block tables, not ${windows.length}`,
  );
  const blocks = Math.ceil(end / shape.blockSize);
  blockIds.forEach((table, group) => {
    invariant(table.length >= blocks, () => `${requestId} has ${table.length} blocks for ${end} tokens`);
    // Blocks that no layer of the group sees any more may have been freed.
    const first = Math.max(0, startPosition + 1 - windows[group]!);
    for (let b = Math.floor(first / shape.blockSize); b < blocks; b++) {
      const id = table[b]!;
      invariant(id > NULL_BLOCK && id < shape.numBlocks, () => `${requestId} computes with block ${id}`);
    }
  });
  const bad = written(tokenIds).find((id) => !(id >= 0 && id < shape.vocabSize));
  invariant(
    bad === undefined,
    () => `${requestId} has token id ${bad} of a vocabulary of ${shape.vocabSize}`,
  );
}
