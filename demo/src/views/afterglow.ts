/**
 * P is done with a turn's blocks within milliseconds: what a block held fades over a few seconds, and stays faint until
 * the block is used again, so that an eye can see what came and went. Knows blocks and flights; draws nothing.
 */
import type { BlockView } from '../session/types.ts';

/** How long a freed block takes to fade. */
export const GLOW_MS = 5000;
/** What stays of it. */
export const FAINT = 0.2;

interface Memory {
  block: BlockView;
  atMs: number;
  /** Told by its copy; the block itself still waits to hear of it. */
  expected: boolean;
}

export class Afterglow {
  readonly #had = new Map<number, Memory>();
  /** What is free at the next look was freed long ago. */
  #begins = false;

  /** What a copy brings to a block, before the block itself tells: taken from the block that it is copied from. */
  expect(to: number, source: BlockView, nowMs: number): void {
    const block: BlockView = {
      ...source,
      id: to,
      state: 'pulled',
      origin: 'pulled',
      refCount: 0,
      heldFor: null,
      heldUntilMs: null,
    };
    this.#had.set(to, { block, atMs: nowMs, expected: true });
  }

  /** Takes in the blocks as they are; a block whose copy is still shown in the air keeps its time. */
  advance(blocks: readonly BlockView[], awaited: ReadonlySet<number>, nowMs: number): void {
    for (const block of blocks) {
      const had = this.#had.get(block.id);
      if (block.state === 'evicted') this.#had.delete(block.id);
      else if (block.state === 'free') {
        // Used and freed between two looks: only what was left tells of it.
        if (block.conversation !== null && !sameContent(had?.block, block))
          this.#had.set(block.id, {
            block: { ...block, state: block.origin ?? 'computed' },
            atMs: this.#begins ? Number.NEGATIVE_INFINITY : nowMs,
            expected: false,
          });
        else if (had && awaited.has(block.id)) had.atMs = nowMs;
      } else if (block.state === 'arriving') {
        if (!had?.expected) this.#had.delete(block.id);
      } else if (block.state !== 'null') this.#had.set(block.id, { block, atMs: nowMs, expected: false });
    }
    this.#begins = false;
  }

  /** What a free block had, and how much of it is still to be seen: 1 when just freed, then less. And what landed in one that waits. */
  of(block: BlockView, nowMs: number): { block: BlockView; fade: number } | null {
    const had = this.#had.get(block.id);
    if (had?.expected && block.state === 'arriving') return { block: had.block, fade: 1 };
    if (!had || block.state !== 'free') return null;
    const fade = Math.max(FAINT, 1 - (nowMs - had.atMs) / GLOW_MS);
    return { block: { ...had.block, heldFor: null }, fade };
  }

  /** For a new beginning, and for one from before: what came later is not known then. */
  clear(): void {
    this.#had.clear();
    this.#begins = true;
  }
}

const sameContent = (a: BlockView | undefined, b: BlockView): boolean =>
  a !== undefined && a.conversation === b.conversation && a.index === b.index && a.text === b.text;
