/**
 * P frees a turn's blocks within milliseconds. So that this can be seen, a freed block's content fades over a few seconds
 * and then stays faint until the block is used again. Draws nothing.
 */
import type { BlockView } from '../../session/types.ts';

/** How long a freed block takes to fade. */
export const GLOW_MS = 5000;
/** The opacity that remains. */
export const FAINT = 0.2;

interface Memory {
  block: BlockView;
  atMs: number;
  /** Known from its copy; the block itself has not been updated yet. */
  expected: boolean;
}

export class Afterglow {
  readonly #had = new Map<number, Memory>();
  /** Blocks that are free at the next update count as freed long ago. */
  #begins = false;

  /** Sets the content that a copy brings to block `to`, taken from its source, before the block itself is updated. */
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

  /** Updates from the blocks. A block whose copy is still shown in flight does not start to fade. */
  advance(blocks: readonly BlockView[], awaited: ReadonlySet<number>, nowMs: number): void {
    for (const block of blocks) {
      const had = this.#had.get(block.id);
      if (block.state === 'evicted') this.#had.delete(block.id);
      else if (block.state === 'free') {
        // Used and freed between two updates: only its remaining content shows it.
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

  /** What a free block held and its opacity (1 when just freed), or what landed in a block that is still arriving. */
  of(block: BlockView, nowMs: number): { block: BlockView; fade: number } | null {
    const had = this.#had.get(block.id);
    if (had?.expected && block.state === 'arriving') return { block: had.block, fade: 1 };
    if (!had || block.state !== 'free') return null;
    const fade = Math.max(FAINT, 1 - (nowMs - had.atMs) / GLOW_MS);
    return { block: { ...had.block, heldFor: null }, fade };
  }

  /** Forgets everything, for a new conversation or when time goes back. */
  clear(): void {
    this.#had.clear();
    this.#begins = true;
  }
}

const sameContent = (a: BlockView | undefined, b: BlockView): boolean =>
  a !== undefined && a.conversation === b.conversation && a.index === b.index && a.text === b.text;
