import { expect, it } from 'vitest';
import { oneGroup } from '../../src/model/architecture/kv-groups.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import type { KernelSet } from '../../src/model/kernels/pass-kernels.ts';
import { warmUpPieces } from '../../src/model/warm-up.ts';

const groups = oneGroup(presetArchitecture('nano'));
const rowsOf = (set: KernelSet, software: boolean, pieceRows = 1024, maxModelLen = 2048): number[] =>
  warmUpPieces({ pieceRows, groups }, { blockSize: 16, maxModelLen }, set, software).map(
    ({ numRows }) => numRows,
  );

it('warms up with a full piece on a GPU, unless the engine starts with the kernels of one row', () => {
  expect(rowsOf('all', false)).toEqual([1, 4, 32, 1024, 1]);
  expect(rowsOf('prompts', false)).toEqual([32, 1024]);
  expect(rowsOf('one row', false)).toEqual([1, 1]);
  expect(rowsOf('all', true)).toEqual([1, 4, 32, 1]);
  expect(rowsOf('prompts', true)).toEqual([32]);
});

it('warms up with no more rows than a piece or a sequence has', () => {
  expect(rowsOf('prompts', false, 256)).toEqual([32, 256]);
  expect(rowsOf('prompts', false, 1024, 24)).toEqual([24, 24]);
});
