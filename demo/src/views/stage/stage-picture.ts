/** The stage's state between frames: flights, afterglow, the slab's meter, evictions, the focus. */
import { computed, type ReadonlySignal } from '@preact/signals';
import { talksOf } from '../../session/conversation/conversation.ts';
import { isLit, type Lit, litBlocks } from '../../session/pointing.ts';
import type { BlockView, Role, SessionState, TransferView, TurnView } from '../../session/types.ts';
import type { Frame } from '../frame.ts';
import { cellAt, contains, layoutStage, neighbour, type StageLayout } from '../geometry.ts';
import { leastFont, reducedMotion } from '../palette.ts';
import { wrongTokens } from '../story.ts';
import { Afterglow, FAINT } from './afterglow.ts';
import { DIRECTIONS, type Direction, directionOf, drawnIds, holderOf, readerOf } from './direction.ts';
import { drawStage, type Focus, type StageLayer, type StageModel } from './draw-stage.ts';
import { type Flight, Flights } from './flights.ts';
import { areOfReplay, shownCopies } from './shown-copies.ts';
import { SlabMeter } from './slab-meter.ts';
import { isFromStore } from './sources.ts';

/** How long a mark of eviction is bright. */
const EVICTED_MS = 2500;

type Blocks = StageModel['blocks'];

interface Copies {
  all: readonly TransferView[];
  /** Whether both of its ends are drawn. */
  between(transfer: TransferView): boolean;
  slabs: StageModel['slabs'];
}

export class StagePicture {
  focus: Focus | null = null;
  /** The store; null if there is none. */
  layer: StageLayer | null = null;
  readonly #state: SessionState;
  readonly #flights = new Flights();
  readonly #slabs = { d_to_p: new SlabMeter(), p_to_d: new SlabMeter() };
  readonly #afterglow = { prefill: new Afterglow(), decode: new Afterglow() };
  readonly #evictedAt = new Map<string, number>();
  readonly #evictions = new Map<string, number>();
  /** The clock at the last drawing. */
  #lastMs = 0;
  #layout: { key: string; layout: StageLayout } | null = null;
  readonly #lit: ReadonlySignal<Lit | null>;

  constructor(state: SessionState) {
    this.#state = state;
    this.#lit = computed(() => litBlocks(state));
  }

  watch(): void {
    const { drawn, transfers, store, storeTransfers, slabs, time, turns, settings, status } = this.#state;
    for (const { value: engine } of [drawn.prefill, drawn.decode]) {
      engine?.blocks.value;
      engine?.alive.value;
    }
    transfers.value;
    turns.value;
    settings.value;
    status.value;
    store.value;
    storeTransfers.value;
    slabs.value;
    time.value;
    this.#lit.value;
  }

  layout(width: number): StageLayout {
    const blocks = this.#blocks();
    const counts = { prefill: blocks.prefill.length || 64, decode: blocks.decode.length || 64 };
    const least = leastFont.peek();
    const withStore = this.#state.store.peek() !== null;
    const key = `${width} ${counts.prefill} ${counts.decode} ${least} ${withStore}`;
    if (this.#layout?.key !== key)
      this.#layout = { key, layout: layoutStage(width, counts, least, withStore) };
    return this.#layout.layout;
  }

  draw({ context, width, palette, elapsedMs }: Frame): boolean {
    const { drawn, turns } = this.#state;
    const clockMs = performance.now();
    const blocks = this.#blocks();
    const copies = this.#copies();
    let more = this.#advance(copies, blocks, elapsedMs, clockMs);
    const newestTurn = this.#takeIn(blocks);
    more = this.#evictedAt.size > 0 || more;
    const awaited = this.#awaited(blocks, clockMs);
    const isAlive = (role: Role) => drawn[role].peek()?.alive.peek() ?? false;
    const lit = this.#lit.peek();
    const model: StageModel = {
      ...this.#channels(copies),
      blocks,
      alive: { prefill: isAlive('prefill'), decode: isAlive('decode') },
      flights: this.#flights.all,
      awaited,
      asked: turns.peek().length > 0,
      look: this.#looks(newestTurn, awaited),
      glow: (role, block) => {
        const glow = this.#afterglow[role].of(block, clockMs);
        more ||= glow !== null && block.state === 'free' && glow.fade > FAINT;
        return glow;
      },
      focus: this.focus,
      layer: this.layer,
      lit: (block) => lit !== null && isLit(lit, block),
    };
    drawStage(context, this.layout(width), model, palette);
    return more;
  }

  #copies(): Copies {
    const { transfers, slabs } = this.#state;
    const ids = drawnIds(this.#state);
    // While engines start, these transfers belong to engines that are gone.
    const all = ids.prefill && ids.decode ? transfers.peek() : [];
    const slabOf = (direction: Direction) => slabs.peek().get(ids[holderOf(direction)] ?? '') ?? null;
    return {
      all,
      between(transfer) {
        const direction = directionOf(transfer);
        return transfer.from === ids[holderOf(direction)] && transfer.to === ids[readerOf(direction)];
      },
      slabs: { d_to_p: slabOf('d_to_p'), p_to_d: slabOf('p_to_d') },
    };
  }

  /** Moves what moves. Returns true while something does. */
  #advance({ all, between, slabs }: Copies, blocks: Blocks, elapsedMs: number, clockMs: number): boolean {
    const { nowMs, endOf } = this.#state;
    const leaves = ({ direction, pairs, failed }: Flight) => {
      if (failed) return;
      const from = blocks[holderOf(direction)];
      for (const [source, to] of pairs) {
        const block = from[source];
        if (block?.conversation) this.#afterglow[readerOf(direction)].expect(to, block, clockMs);
      }
    };
    let more = this.#flights.advance(all.filter(between), nowMs(), elapsedMs, leaves, endOf);
    const still = reducedMotion.peek();
    if (still) {
      this.#flights.land();
      more = false;
    }
    more = this.layer?.advance(elapsedMs, still) || more;
    for (const direction of DIRECTIONS) {
      more = this.#slabs[direction].advance(slabs[direction], elapsedMs) || more;
    }
    return more;
  }

  /** Ids of the blocks that something flies to. The others' afterglow goes on. */
  #awaited(blocks: Blocks, clockMs: number): StageModel['awaited'] {
    const { turns, nowMs } = this.#state;
    const awaitedBy = (role: Role) =>
      new Set([...this.#flights.awaited(role), ...(this.layer?.awaited(role) ?? [])]);
    const awaited = { prefill: awaitedBy('prefill'), decode: awaitedBy('decode') };
    const fresh = turns.peek().length === 0 || nowMs() < this.#lastMs;
    this.#lastMs = nowMs();
    for (const role of ['prefill', 'decode'] as const) {
      if (fresh) this.#afterglow[role].clear();
      this.#afterglow[role].advance(blocks[role], awaited[role], clockMs);
    }
    return awaited;
  }

  #channels({
    all,
    between,
    slabs,
  }: Copies): Pick<StageModel, 'slabs' | 'slabFill' | 'last' | 'elsewhere' | 'again'> {
    const own = this.#own(all);
    const lastOf = (direction: Direction) =>
      own.findLast((copy) => directionOf(copy) === direction && between(copy)) ?? null;
    const some = (direction: Direction) => own.some((copy) => directionOf(copy) === direction);
    return {
      slabs,
      slabFill: { d_to_p: this.#slabs.d_to_p.shown, p_to_d: this.#slabs.p_to_d.shown },
      last: { d_to_p: lastOf('d_to_p'), p_to_d: lastOf('p_to_d') },
      elsewhere: { d_to_p: some('d_to_p'), p_to_d: some('p_to_d') },
      again: areOfReplay(own, this.#state.turns.peek()),
    };
  }

  #looks(newestTurn: number, awaited: StageModel['awaited']): StageModel['look'] {
    const turns = this.#state.turns.peek();
    const talks = talksOf(turns);
    const last = turns.at(-1);
    const wrong = last && wrongTokens(last) > 0 ? last : null;
    return (role, block) => ({
      role,
      newestTurn,
      conversation: block.conversation ? talks.indexOf(block.conversation) : 0,
      awaited: awaited[role].has(block.id),
      evictedGlow: this.#evicted(role, block),
      fade: 1,
      stored: block.origin === 'pulled' && isFromStore(this.#state, role, block.id),
      wrong: wrong !== null && isWrong(block, wrong, this.#state.machine.peek()?.blockSize ?? 1),
    });
  }

  at(point: { x: number; y: number }): Focus | null {
    const layout = this.#layout?.layout;
    if (!layout || contains(layout.slab, point)) return null;
    for (const role of ['prefill', 'decode'] as const) {
      const id = cellAt(layout[role], point);
      if (id !== null) return { role, id };
    }
    return null;
  }

  moved(from: Focus | null, key: Parameters<typeof neighbour>[2]): Focus {
    const layout = this.#layout?.layout;
    if (!from || !layout) return { role: 'prefill', id: 1 };
    const next = neighbour(layout[from.role], from.id, key);
    if (next !== null) return { ...from, id: next };
    return crossed(layout, from, key) ?? from;
  }

  /** The transfers that brought what the grids show. */
  #own(all: readonly TransferView[]): TransferView[] {
    const { turns, settings, status, time } = this.#state;
    // A turn that is shown again may have run in another mode.
    const mode = time.peek().follows ? settings.peek().mode : null;
    return shownCopies(all, { turns: turns.peek(), mode, idle: status.peek().phase === 'ready' });
  }

  #blocks(): Blocks {
    const { prefill, decode } = this.#state.drawn;
    return {
      prefill: prefill.peek()?.blocks.peek() ?? [],
      decode: decode.peek()?.blocks.peek() ?? [],
    };
  }

  /** Notes new evictions; returns the newest turn of any block. */
  #takeIn(blocks: Blocks): number {
    let newest = 1;
    const now = performance.now();
    for (const role of ['prefill', 'decode'] as const) {
      for (const block of blocks[role]) {
        newest = Math.max(newest, block.turn ?? 0);
        const key = `${role} ${block.id}`;
        if (block.evictions > (this.#evictions.get(key) ?? 0)) this.#evictedAt.set(key, now);
        this.#evictions.set(key, block.evictions);
      }
    }
    for (const [key, at] of this.#evictedAt) if (now - at > EVICTED_MS) this.#evictedAt.delete(key);
    return newest;
  }

  #evicted(role: Role, block: BlockView): number {
    const at = this.#evictedAt.get(`${role} ${block.id}`);
    return at === undefined ? 0 : Math.max(0, 1 - (performance.now() - at) / EVICTED_MS);
  }
}

/** Whether a block has KV that a turn used although its tokens differ from the prompt's. */
function isWrong(
  { conversation, index }: BlockView,
  { conversation: its, differsAt, result }: TurnView,
  blockSize: number,
): boolean {
  if (conversation !== its || index === null || differsAt === null || !result) return false;
  const had = result.local_hit_tokens + result.pulled_tokens;
  return (index + 1) * blockSize > differsAt && index * blockSize < had;
}

/** From the edge of one grid into the other, in the same row (or column). */
function crossed(layout: StageLayout, from: Focus, key: string): Focus | null {
  const other: Role = from.role === 'prefill' ? 'decode' : 'prefill';
  const into = from.role === 'prefill' ? ['ArrowRight', 'ArrowDown'] : ['ArrowLeft', 'ArrowUp'];
  const way = layout.direction === 'across' ? into[0] : into[1];
  if (key !== way) return null;
  const [here, there] = [layout[from.role], layout[other]];
  const row = Math.floor(from.id / here.columns);
  const column = from.id % here.columns;
  const id =
    layout.direction === 'across'
      ? row * there.columns + (from.role === 'prefill' ? 0 : there.columns - 1)
      : (from.role === 'prefill' ? 0 : (there.rows - 1) * there.columns) + column;
  return { role: other, id: Math.min(id, there.count - 1) };
}
