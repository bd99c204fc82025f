import { expect, it } from 'vitest';
import { FreeQueue } from '../../src/engine/free-queue.ts';

it('fill() queues all blocks but the null block in id order, and appending one again throws', () => {
  const queue = new FreeQueue(5);
  queue.fill();
  expect(queue.toArray()).toEqual([1, 2, 3, 4]);
  expect(queue.has(0)).toBe(false);
  expect(() => queue.append(2)).toThrow('block 2 is in the free queue already');
});
