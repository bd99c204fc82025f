/** The two engines: their blocks, the slab between, copies as they happen; pointing or arrow keys show a block's content. */
import { useComputed, useSignal } from '@preact/signals';
import { useMemo, useRef } from 'preact/hooks';
import type { BlockView, Role, Session, SessionState } from '../session/types.ts';
import { BlockInspector } from './block-inspector.tsx';
import { BlockLegend } from './block-legend.tsx';
import { BlockTable } from './block-table.tsx';
import { drawStage, type Focus, type StageModel } from './draw-stage.ts';
import { EngineHeading } from './engine-heading.tsx';
import { Flights } from './flights.ts';
import { cellAt, contains, isArrowKey, layoutStage, neighbour, type StageLayout } from './geometry.ts';
import { reducedMotion } from './palette.ts';
import { SlabMeter } from './slab-meter.ts';
import { type Frame, Surface } from './surface.tsx';
import { TransferNews } from './transfer-news.tsx';

const GLOW_MS = 2500;

export function EnginesView({ session: { state } }: { session: Session }) {
  const focus = useSignal<Focus | null>(null);
  const picture = useMemo(() => new StagePicture(state), [state]);
  const redraw = useRef(() => {});
  const pinned = useRef(false);

  const show = (next: Focus | null) => {
    focus.value = next;
    picture.focus = next;
    redraw.current();
  };
  const pointed = (event: PointerEvent): Focus | null => {
    const bounds = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return picture.at({ x: event.clientX - bounds.x, y: event.clientY - bounds.y });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Escape') {
      pinned.current = false;
      show(null);
    } else if (isArrowKey(event.key)) {
      event.preventDefault();
      show(picture.moved(focus.value, event.key));
    }
  };
  const block = useComputed(() => {
    const at = focus.value;
    return at ? (state[at.role].blocks.value[at.id] ?? null) : null;
  });

  return (
    <section class="panel engines" aria-label="The two engines">
      <div class="engines-heads">
        <EngineHeading state={state} engine="prefill" />
        <EngineHeading state={state} engine="decode" />
      </div>
      {/* A grid of cells drawn on a canvas: the arrow keys walk through it, and the text below says what is under them. */}
      <div
        class="stage"
        role="application"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: an application is walked through with the keyboard
        tabIndex={0}
        aria-label="KV blocks of P and D. Arrow keys go from block to block; Escape leaves."
        aria-describedby="block-inspector"
        onPointerMove={(event) => {
          if (!pinned.current) show(pointed(event));
        }}
        onPointerDown={(event) => {
          const at = pointed(event);
          pinned.current = at !== null;
          show(at);
        }}
        onPointerLeave={() => {
          if (!pinned.current) show(null);
        }}
        onFocus={(event) => {
          if (!focus.value && (event.currentTarget as HTMLElement).matches(':focus-visible')) {
            show(picture.moved(null, 'Home'));
          }
        }}
        onKeyDown={onKeyDown}
      >
        <Surface
          name="engines"
          heightFor={(width) => picture.layout(width).height}
          watch={() => picture.watch()}
          draw={(frame) => picture.draw(frame)}
          onReady={(again) => {
            redraw.current = again;
          }}
        />
      </div>
      <BlockLegend />
      <BlockInspector focus={focus} block={block} state={state} />
      <TransferNews state={state} />
      <BlockTable state={state} />
    </section>
  );
}

/** What is remembered from frame to frame: flights, the slab's falling meter, when a block was evicted. */
class StagePicture {
  focus: Focus | null = null;
  readonly #state: SessionState;
  readonly #flights = new Flights();
  readonly #slabs = { d_to_p: new SlabMeter(), p_to_d: new SlabMeter() };
  readonly #evictedAt = new Map<string, number>();
  readonly #evictions = new Map<string, number>();
  #layout: { key: string; layout: StageLayout } | null = null;
  #conversations: string[] = [];

  constructor(state: SessionState) {
    this.#state = state;
  }

  watch(): void {
    const { prefill, decode, transfers, slabs } = this.#state;
    for (const signal of [prefill.blocks, decode.blocks, prefill.alive, decode.alive, transfers])
      signal.value;
    for (const signal of [slabs.d_to_p, slabs.p_to_d]) signal.value;
  }

  layout(width: number): StageLayout {
    const counts = {
      prefill: this.#state.prefill.blocks.peek().length || 64,
      decode: this.#state.decode.blocks.peek().length || 64,
    };
    const key = `${width} ${counts.prefill} ${counts.decode}`;
    if (this.#layout?.key !== key) this.#layout = { key, layout: layoutStage(width, counts) };
    return this.#layout.layout;
  }

  draw({ context, width, palette, elapsedMs }: Frame): boolean {
    const { transfers, slabs, prefill, decode, nowMs } = this.#state;
    const list = transfers.peek();
    let more = this.#flights.advance(list, nowMs(), elapsedMs);
    if (reducedMotion.peek()) {
      this.#flights.land();
      more = false;
    }
    for (const direction of ['d_to_p', 'p_to_d'] as const) {
      more = this.#slabs[direction].advance(slabs[direction].peek(), elapsedMs) || more;
    }
    const blocks = { prefill: prefill.blocks.peek(), decode: decode.blocks.peek() };
    const newestTurn = this.#takeIn(blocks);
    more = this.#evictedAt.size > 0 || more;
    const awaited = { prefill: this.#flights.awaited('prefill'), decode: this.#flights.awaited('decode') };
    const model: StageModel = {
      blocks,
      alive: { prefill: prefill.alive.peek(), decode: decode.alive.peek() },
      flights: this.#flights.all,
      awaited,
      slabs: { d_to_p: slabs.d_to_p.peek(), p_to_d: slabs.p_to_d.peek() },
      slabFill: { d_to_p: this.#slabs.d_to_p.shown, p_to_d: this.#slabs.p_to_d.shown },
      last: {
        d_to_p: list.findLast((transfer) => transfer.direction === 'd_to_p') ?? null,
        p_to_d: list.findLast((transfer) => transfer.direction === 'p_to_d') ?? null,
      },
      look: (role, block) => ({
        role,
        newestTurn,
        conversation: block.conversation ? this.#conversations.indexOf(block.conversation) : 0,
        awaited: awaited[role].has(block.id),
        evictedGlow: this.#glow(role, block),
      }),
      focus: this.focus,
    };
    drawStage(context, this.layout(width), model, palette);
    return more;
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

  /** Notes what is new; returns the newest turn that any block has. */
  #takeIn(blocks: Readonly<Record<Role, readonly BlockView[]>>): number {
    let newest = 1;
    const now = performance.now();
    for (const role of ['prefill', 'decode'] as const) {
      for (const block of blocks[role]) {
        newest = Math.max(newest, block.turn ?? 0);
        if (block.conversation && !this.#conversations.includes(block.conversation)) {
          this.#conversations.push(block.conversation);
        }
        const key = `${role} ${block.id}`;
        if (block.evictions > (this.#evictions.get(key) ?? 0)) this.#evictedAt.set(key, now);
        this.#evictions.set(key, block.evictions);
      }
    }
    for (const [key, at] of this.#evictedAt) if (now - at > GLOW_MS) this.#evictedAt.delete(key);
    return newest;
  }

  #glow(role: Role, block: BlockView): number {
    const at = this.#evictedAt.get(`${role} ${block.id}`);
    return at === undefined ? 0 : Math.max(0, 1 - (performance.now() - at) / GLOW_MS);
  }
}

/** From the edge of one grid into the other, at the same height (or column). */
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
