/** One engine's blocks as a grid, with the page's marks. */
import { blockView } from '../../../src/recording/block-views.ts';
import { emptyBlock } from '../../../src/recording/empty-block.ts';
import type { EngineRole } from '../../../src/router/engine-client.ts';
import type { LiveBlock, LiveBlocks } from '../../../src/simulate/live/view.ts';
import type { BlockView } from '../session/types.ts';
import type { Frame } from '../views/frame.ts';
import {
  type ArrowKey,
  cellAt,
  cellBox,
  clamp,
  type GridLayout,
  heightOf,
  layoutGrid,
  neighbour,
  type Point,
} from '../views/geometry.ts';
import { BlockLayer, type DrawnBlock } from '../views/stage/block-layer.ts';
import type { Stored } from '../views/stage/describe-block.ts';
import { drawBlockFocus } from '../views/stage/draw-block.ts';

const PADDING = 4;

export class OpenedPicture {
  readonly role: EngineRole;
  focus: number | null = null;
  blocks: readonly BlockView[] = [];
  #from = new Map<number, LiveBlock['from']>();
  #taken: LiveBlocks | null = null;
  #grid: GridLayout | null = null;
  readonly #layer = new BlockLayer();

  constructor(role: EngineRole) {
    this.role = role;
  }

  /** null: nothing new; the last blocks stay. */
  take(opened: LiveBlocks | null): void {
    if (!opened || opened === this.#taken) return;
    this.#taken = opened;
    this.#from = new Map(opened.blocks.map(({ id, from }) => [id, from]));
    const views = new Map(opened.blocks.map((block) => [block.id, viewOf(block)]));
    this.blocks = Array.from({ length: opened.numBlocks }, (_, id) => views.get(id) ?? emptyBlock(id));
  }

  layout(width: number): { height: number } {
    const most = clamp(0.3 * width, 120, 320);
    const box = { x: PADDING, y: PADDING, width: width - 2 * PADDING, height: most };
    this.#grid = layoutGrid(Math.max(1, this.blocks.length), box);
    return { height: Math.max(heightOf(this.#grid), 60) + 2 * PADDING };
  }

  draw(frame: Frame): void {
    this.layout(frame.width);
    const grid = this.#grid!;
    this.#layer.draw(frame, grid, this.#drawn());
    if (this.focus === null || this.focus >= this.blocks.length) return;
    drawBlockFocus(frame.context, cellBox(grid, this.focus), frame.palette);
  }

  *#drawn(): Iterable<DrawnBlock> {
    const newestTurn = this.blocks.reduce((newest, { turn }) => Math.max(newest, turn ?? 0), 1);
    const still = { role: this.role, newestTurn, awaited: false, evictedGlow: 0, fade: 1, wrong: false };
    for (const block of this.blocks) {
      const stored = this.#from.get(block.id) === 'store';
      yield { block, look: { ...still, conversation: talkOf(block), stored } };
    }
  }

  /** Whether the content copied into a block came from the store. */
  stored(id: number, hasStore: boolean): Stored {
    const from = this.#from.get(id) ?? null;
    if (from === null || from === 'either') return hasStore && 'perhaps';
    return from === 'store';
  }

  at(point: Point): number | null {
    return this.#grid && cellAt(this.#grid, point);
  }

  moved(from: number | null, key: ArrowKey): number {
    if (from === null || !this.#grid) return Math.min(1, this.blocks.length - 1);
    return neighbour(this.#grid, from, key) ?? from;
  }
}

const viewOf = (block: LiveBlock): BlockView => {
  const { conversationId: conversation, turn, index, tokens } = block;
  return blockView(block, { conversation, turn, author: null, index, tokens, text: null }, 0);
};

/** The index that chooses a conversation's stripe: 'c3', the third that arrived, gives 3. */
const talkOf = ({ conversation }: BlockView): number => Number(conversation?.replace(/^\D+/, '') ?? 0) || 0;
