import { expect, it } from 'vitest';
import { createBlockHasher } from '../../src/engine/block-hash.ts';
import { occupancy, occupancyOf } from '../../src/engine/inspect/occupancy.ts';
import { KvCacheManager } from '../../src/engine/kv-cache-manager.ts';
import { Request } from '../../src/engine/request.ts';
import { engineConfig, request, tokens } from './fakes.ts';

it('cells give shares of 255 of their blocks, the last one of those that it has', () => {
  const uses = [null, 'used', 'held', 'cached', null, 'cached'] as const;
  expect(occupancyOf(5, 3, (id) => uses[id]!)).toEqual({
    blocksPerCell: 2,
    used: Uint8Array.of(128, 0, 0),
    held: Uint8Array.of(128, 0, 0),
    cached: Uint8Array.of(0, 128, 255),
  });
});

it('a block is held if only holds have it, used if a request has it too, and cached if it is free with a hash', () => {
  const config = engineConfig({ blockSize: 4, numBlocks: 7 });
  const hasher = createBlockHasher('seed');
  const cache = new KvCacheManager({ config: config.cache, scheduler: config.scheduler, hasher });
  const make = (id: string, length: number, seed: number) =>
    new Request(request(id, tokens(length, seed)), 0, { hasher, blockSize: 4 });
  const [ended, next, gone] = [make('ended', 8, 0), make('next', 5, 0), make('gone', 6, 1)];
  cache.allocateSlots(ended, 0, 8);
  cache.allocateSlots(next, 4, 1, cache.getComputedBlocks(next));
  cache.allocateSlots(gone, 0, 6);
  cache.free(gone);
  // Blocks 1 and 2 are of 'ended', 1 and 3 of 'next', 4 and 5 were of 'gone', and of these only 4 was full.
  const hold = { requestId: 'ended', direction: 'decode', deadline: 0, reading: false } as const;
  expect(occupancy(cache, [{ ...hold, blockIds: cache.blockIds(ended) }], 6)).toEqual({
    blocksPerCell: 1,
    used: Uint8Array.of(255, 0, 255, 0, 0, 0),
    held: Uint8Array.of(0, 255, 0, 0, 0, 0),
    cached: Uint8Array.of(0, 0, 0, 255, 0, 0),
  });
});
