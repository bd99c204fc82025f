/** Room in a store's folder: what is evicted for a block, and when a sequence is cut instead. */
import { describe, expect, it } from 'vitest';
import { FolderRoom } from '../../src/store/folder-room.ts';

const hash = (n: number): string => n.toString(16).padStart(64, '0');

function roomFor(bytes: number) {
  const evicted: string[] = [];
  return { room: new FolderRoom({ bytes, onEvicted: (block) => evicted.push(block) }), evicted };
}

describe("a folder's room", () => {
  it('evicts the least recently used blocks until the bytes fit', () => {
    const { room, evicted } = roomFor(100);
    for (const n of [1, 2, 3]) room.enter(hash(n), 30);
    room.used([hash(1)]);
    expect(room.enter(hash(4), 60)).toBe(true);
    expect(evicted).toEqual([hash(2), hash(3)]);
    expect([1, 2, 3, 4].filter((n) => room.has(hash(n)))).toEqual([1, 4]);
  });

  it('counts a block once that enters again, and not at all once it left', () => {
    const { room, evicted } = roomFor(100);
    room.enter(hash(1), 60);
    room.enter(hash(1), 60);
    room.leave(hash(1));
    room.leave(hash(1));
    room.enter(hash(2), 50);
    room.enter(hash(3), 50);
    expect(evicted).toEqual([]);
  });

  it('cuts a sequence rather than evict its own blocks, until a block of it finds room again', () => {
    const { room, evicted } = roomFor(60);
    room.enter(hash(1), 30);
    room.enter(hash(2), 30, hash(1));
    expect(room.enter(hash(3), 30, hash(2))).toBe(false);
    expect(room.enter(hash(4), 30, hash(3))).toBe(false);
    expect(evicted).toEqual([]);
    room.leave(hash(2));
    room.leave(hash(1));
    expect(room.enter(hash(3), 30, hash(2))).toBe(true);
    expect(room.enter(hash(4), 30, hash(3))).toBe(true);
  });
});
