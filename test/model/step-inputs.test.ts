import fc from 'fast-check';
import { expect, it } from 'vitest';
import { DEFAULT_SAMPLING } from '../../src/engine/sampling.ts';
import type { ScheduledRequest } from '../../src/engine/types.ts';
import { attendedKeys, attentionTiles, cutIntoPieces } from '../../src/model/pass/step-inputs.ts';

const shape = { blockSize: 4, numBlocks: 500, vocabSize: 1000, maxModelLen: 256 };
const unlimited = { rows: 1e9, attendedKeys: 1e9, logitRows: 1e9 };
const params = { ...DEFAULT_SAMPLING, maxTokens: 1, ignoreEos: true };

function scheduled(id: number, start: number, count: number, sampled: boolean): ScheduledRequest {
  return {
    requestId: `r${id}`,
    tokenIds: Array.from({ length: count }, (_, i) => (id * 100 + i) % 1000),
    startPosition: start,
    blockIds: [Array.from({ length: Math.ceil((start + count) / 4) + 1 }, (_, b) => 1 + id * 70 + b)],
    sample: sampled ? { params, outputIndex: 0, forbiddenTokenIds: [] } : null,
  };
}

it('cutIntoPieces lays out tokens, slots, block tables and logit rows', () => {
  const [piece, ...more] = cutIntoPieces(
    { step: 0, requests: [scheduled(0, 6, 3, false), scheduled(1, 0, 2, true)] },
    shape,
    unlimited,
  );
  expect(more).toEqual([]);
  // token id, position, slot = block * 4 + position % 4
  expect([...piece!.groups[0].tokens]).toEqual(
    [
      [0, 6, 10, 0],
      [1, 7, 11, 0],
      [2, 8, 12, 0],
      [100, 0, 284, 0],
      [101, 1, 285, 0],
    ].flat(),
  );
  expect([...piece!.groups[0].tables]).toEqual([1, 2, 3, 71]);
  expect(piece!.spans).toEqual([
    { table: 0, firstRow: 0, rows: 3 },
    { table: 3, firstRow: 3, rows: 2 },
  ]);
  expect([...piece!.logitRows]).toEqual([4]);
  expect(piece!.samples.map(({ requestId }) => requestId)).toEqual(['r1']);
  expect(piece!.attendedKeys).toBe(7 + 8 + 9 + 1 + 2);
  expect([...attentionTiles(piece!, 3, 8)]).toEqual(
    [
      [0, 0, 0, 8],
      [0, 0, 8, 1],
      [3, 3, 0, 6],
    ].flat(),
  );
});

it('cutIntoPieces keeps every row once and in order, within any limits', () => {
  const requests = fc.array(
    fc.tuple(fc.integer({ min: 0, max: 100 }), fc.integer({ min: 1, max: 60 }), fc.boolean()),
    { minLength: 1, maxLength: 6 },
  );
  const limits = fc.record({
    rows: fc.integer({ min: 1, max: 50 }),
    attendedKeys: fc.integer({ min: 1, max: 2000 }),
    logitRows: fc.integer({ min: 1, max: 3 }),
  });
  fc.assert(
    fc.property(requests, limits, (list, most) => {
      const batch = {
        step: 0,
        requests: list.map(([start, count, s], id) => scheduled(id, start, count, s)),
      };
      const pieces = cutIntoPieces(batch, shape, most);
      const [whole] = cutIntoPieces(batch, shape, unlimited);
      expect(pieces.flatMap(({ groups }) => [...groups[0].tokens])).toEqual([...whole!.groups[0].tokens]);
      expect(pieces.flatMap(({ samples }) => samples)).toEqual([...whole!.samples]);
      for (const piece of pieces) {
        expect(piece.numRows).toBeLessThanOrEqual(most.rows);
        expect(piece.logitRows.length).toBeLessThanOrEqual(most.logitRows);
        if (piece.numRows > 1) expect(piece.attendedKeys).toBeLessThanOrEqual(most.attendedKeys);
      }
    }),
  );
});

it('cutIntoPieces counts only keys in a window, and allows null blocks that no row sees', () => {
  const windowed = { ...shape, windows: [6] };
  const request = scheduled(0, 9, 3, true);
  const batch = (blockIds: number[]) => ({ step: 0, requests: [{ ...request, blockIds: [blockIds] }] });
  const [piece, ...more] = cutIntoPieces(batch([0, 7, 8]), windowed, { ...unlimited, attendedKeys: 18 });
  expect(more).toEqual([]);
  expect([...piece!.groups[0].tables]).toEqual([0, 7, 8]);
  expect(attendedKeys(piece!, 6)).toBe(18);
  expect(attendedKeys(piece!, 11)).toBe(10 + 11 + 11);
  expect(attendedKeys(piece!, 1000)).toBe(10 + 11 + 12);
  expect(cutIntoPieces(batch([0, 7, 8]), windowed, { ...unlimited, attendedKeys: 17 })).toHaveLength(2);
  // Position 9 sees position 4 and later.
  expect(() => cutIntoPieces(batch([0, 0, 8]), windowed, unlimited)).toThrow('block 0');
  expect(() => cutIntoPieces(batch([0, 7, 8]), { ...windowed, windows: [7] }, unlimited)).toThrow('block 0');
});

it('cutIntoPieces refuses a null or unknown block, an unknown token and a position past the end', () => {
  const cut = (request: ScheduledRequest) => () =>
    cutIntoPieces({ step: 0, requests: [request] }, shape, unlimited);
  const good = scheduled(0, 0, 4, true);
  expect(cut(good)).not.toThrow();
  expect(cut({ ...good, blockIds: [[0]] })).toThrow('block 0');
  expect(cut({ ...good, blockIds: [[500]] })).toThrow('block 500');
  expect(cut({ ...good, tokenIds: [1000] })).toThrow('token id 1000');
  expect(cut({ ...good, startPosition: 253 })).toThrow('position 257 of 256');
});
