import { expect, it } from 'vitest';
import { createBlockHasher, extendHashes } from '../../src/engine/block-hash.ts';
import type { BlockFact } from '../../src/engine/inspect/block-facts.ts';
import { HASH_SEED } from '../../src/fleet/options.ts';
import { BlockViews } from '../../src/recording/block-views.ts';
import { BlocksByHash } from '../../src/recording/blocks-by-hash.ts';

const BLOCK = 4;

/** The turn's second block. */
const fact = (requestId: string): BlockFact => ({
  id: 7,
  group: null,
  use: 'running',
  hit: false,
  requestId,
  index: 1,
  origin: 'computed',
  tokens: BLOCK,
  refCount: 1,
  hash: null,
  evictions: 0,
  evicted: false,
  hold: null,
});

it('a block view names the KV cache group if there are several', () => {
  const views = new BlockViews(BLOCK, (ids) => ids.join(' '));
  expect(views.view({ ...fact('r'), group: 2 }, 0).group).toBe(2);
  expect(views.view(fact('r'), 0)).not.toHaveProperty('group');
});

it('block views remember only the last 256 turns of all conversations', () => {
  const views = new BlockViews(BLOCK, (ids) => ids.join(' '));
  const turn = (turnId: string, conversation: string, tokens: number) => {
    views.turnStarted(
      turnId,
      conversation,
      Array.from({ length: tokens }, (_, i) => i),
    );
    views.requestStarted(`at P: ${turnId}`, { turnId, side: 'prefill' });
  };
  turn('a#1', 'a', BLOCK);
  // Conversations that are never ended.
  for (let i = 0; i < 256; i++) turn(`other#${i}`, `other-${i}`, BLOCK);

  turn('a#2', 'a', 2 * BLOCK);
  expect(views.view(fact('at P: a#1'), 0)).toMatchObject({ conversation: null, text: null });
  expect(views.ownerOf('at P: a#1')).toBeNull();
  // Only this turn of the conversation is known now, so it counts as the first.
  expect(views.view(fact('at P: a#2'), 0)).toMatchObject({ conversation: 'a', turn: 1, text: '4 5 6 7' });

  turn('a#3', 'a', 3 * BLOCK);
  expect(views.view({ ...fact('at P: a#3'), index: 2 }, 0)).toMatchObject({ conversation: 'a', turn: 2 });
});

it('block views also keep at most 256 failed turns and resumed conversations', () => {
  const views = new BlockViews(BLOCK, (ids) => ids.join(' '));
  for (let i = 0; i < 300; i++) {
    views.resume(`resumed-${i}`, [1], [{ question: 1, answer: 1 }]);
    views.turnStarted(`a#${i}`, 'a', [1]);
    views.turnFailed(`a#${i}`);
  }
  views.turnStarted('b#1', 'b', [1]);
  expect([...views.sequences()]).toHaveLength(256);
});

it('a failed turn counts in the numbering, but later turns do not inherit its text', () => {
  const views = new BlockViews(BLOCK, (ids) => ids.join(' '));
  const turn = (turnId: string, tokens: readonly number[]) => {
    const told = views.turnStarted(turnId, 'a', tokens);
    views.requestStarted(`at P: ${turnId}`, { turnId, side: 'prefill' });
    return told;
  };
  turn('a#1', [1, 2, 3]);
  views.token('a#1', 4);
  turn('a#2', [1, 2, 3, 4, 90, 91, 92, 93, 94, 95, 96, 97]);
  views.turnFailed('a#2');
  expect(turn('a#3', [1, 2, 3, 4, 5, 6, 7, 8])).toEqual({ turn: 3, differsAt: null });
  expect(views.view(fact('at P: a#3'), 0)).toMatchObject({ turn: 3, text: '5 6 7 8' });
  expect(views.view({ ...fact('at P: a#3'), index: 0 }, 0)).toMatchObject({ turn: 1 });
  // A conversation whose first turn failed.
  views.turnStarted('b#1', 'b', [1, 2, 3, 4, 5]);
  views.turnFailed('b#1');
  expect(views.turnStarted('b#2', 'b', [7, 8])).toEqual({ turn: 2, differsAt: null });
});

it('a block hash is resolved to its text, in live and in resumed conversations', () => {
  const views = new BlockViews(BLOCK, (ids) => ids.join(' '));
  const tokenIds = [1, 2, 3, 4, 5, 6, 7, 8, 9];
  const hashes: string[] = [];
  const hashing = { hasher: createBlockHasher(HASH_SEED), blockSize: BLOCK };
  extendHashes(hashes, { tokenIds, cacheSalt: null }, hashing, 8);
  const byHash = new BlocksByHash(views, BLOCK);
  const nothing = { conversation: null, text: null, index: null, tokens: BLOCK };
  expect(byHash.contentOf(hashes[1]!)).toMatchObject(nothing);
  views.resume('a', tokenIds.slice(0, 6), [{ question: 3, answer: 6 }]);
  byHash.refresh();
  expect([byHash.knows(hashes[0]!), byHash.knows(hashes[1]!)]).toEqual([true, false]);
  expect(byHash.contentOf(hashes[0]!)).toMatchObject({ conversation: 'a', turn: 1, text: '1 2 3 4' });
  expect(byHash.contentOf(hashes[1]!).conversation).toBeNull();
  expect(views.turnStarted('a#2', 'a', tokenIds)).toEqual({ turn: 2, differsAt: null });
  byHash.refresh();
  // The block's first token belongs to the first turn.
  const second = { conversation: 'a', turn: 1, index: 1, author: 'both', text: '5 6 7 8' };
  expect(byHash.contentOf(hashes[1]!)).toMatchObject({ ...second, hash: hashes[1]!.slice(0, 16) });
});
