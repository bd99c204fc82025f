/**
 * P is done with a turn's blocks within milliseconds: what a block held fades over a few seconds, so that an eye can see
 * what came and went. Knows blocks and flights; draws nothing.
 */
import type { BlockView } from '../session/types.ts';

/** How long a freed block still shows what it had. */
export const GLOW_MS = 6000;

interface Memory {
  block: BlockView;
  atMs: number;
}

const isEmpty = ({ state }: BlockView): boolean => state === 'free' || state === 'evicted';

export class Afterglow {
  readonly #had = new Map<number, Memory>();

  /** What a copy brings to a block, before the block itself tells: taken from the block that it is copied from. */
  expect(to: number, source: BlockView, nowMs: number): void {
    const block: BlockView = {
      ...{ ...source, id: to, state: 'pulled', origin: 'pulled' },
      ...{ refCount: 0, heldFor: null, heldUntilMs: null },
    };
    this.#had.set(to, { block, atMs: nowMs });
  }

  /** Takes in the blocks as they are; a block whose copy is still shown in the air keeps its time. */
  advance(blocks: readonly BlockView[], awaited: ReadonlySet<number>, nowMs: number): void {
    for (const block of blocks) {
      if (!isEmpty(block)) {
        if (block.state !== 'null') this.#had.set(block.id, { block, atMs: nowMs });
        continue;
      }
      const had = this.#had.get(block.id);
      if (!had) continue;
      if (awaited.has(block.id)) had.atMs = nowMs;
      else if (nowMs - had.atMs > GLOW_MS) this.#had.delete(block.id);
    }
  }

  /** What an empty block had until a moment ago, and how much of it is still to be seen (1 to 0). */
  of(block: BlockView, nowMs: number): { block: BlockView; fade: number } | null {
    const had = this.#had.get(block.id);
    if (!had || !isEmpty(block)) return null;
    const fade = 1 - (nowMs - had.atMs) / GLOW_MS;
    return fade > 0 ? { block: { ...had.block, heldFor: null }, fade } : null;
  }

  get active(): boolean {
    return this.#had.size > 0;
  }

  clear(): void {
    this.#had.clear();
  }
}
