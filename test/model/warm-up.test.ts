import { expect, it } from 'vitest';
import { oneGroup } from '../../src/model/architecture/kv-groups.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { warmUpPiece, warmUpPieces } from '../../src/model/warm-up.ts';

const parts = { pieceRows: 1024, groups: oneGroup(presetArchitecture('nano')) };
const limits = { blockSize: 16, maxModelLen: 2048 };

it.each([
  ['all', [1, 4, 32, 1]],
  ['prompts', [32]],
  ['one row', [1, 1]],
] as const)('warms up the kernels of the set %s with pieces of %j rows', (set, rows) => {
  const pieces = warmUpPieces(parts, limits, set);
  expect(pieces.map(({ numRows }) => numRows)).toEqual(rows);
  expect(pieces.at(-1)!.longestContext).toBe(set === 'prompts' ? 32 : 257);
});

it('has no more rows than a piece or a sequence, all in the null block', () => {
  const rowsOf = (pieceRows: number, maxModelLen: number): number =>
    warmUpPiece({ ...parts, pieceRows }, { ...limits, maxModelLen }, 5000).numRows;
  expect(rowsOf(1024, 2048)).toBe(1024);
  expect(rowsOf(256, 2048)).toBe(256);
  expect(rowsOf(1024, 24)).toBe(24);
  const { tokens, tables } = warmUpPiece(parts, limits, 40).groups[0];
  expect([...tables]).toEqual([0, 0, 0]);
  for (let row = 0; row < 40; row++) expect(tokens[4 * row + 2]).toBe(row % 16);
});
