import { expect, it } from 'vitest';
import { FreeQueue } from '../../src/engine/free-queue.ts';

it('a queue is filled with all blocks but the null block, in their order', () => {
  const queue = new FreeQueue(5);
  queue.fill();
  expect(queue.toArray()).toEqual([1, 2, 3, 4]);
  expect(queue.has(0)).toBe(false);
  expect(() => queue.append(2)).toThrow('block 2 is in the free queue already');
});
