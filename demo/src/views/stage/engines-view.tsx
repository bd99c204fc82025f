/** The two engines: their blocks, the slab between, and copies as they happen. Pointing or arrow keys show a block's content. */
import { useSignal, useSignalEffect } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useMemo, useRef } from 'preact/hooks';
import type { Pointed, Session } from '../../session/types.ts';
import { isArrowKey } from '../geometry.ts';
import { Surface } from '../surface.tsx';
import { useFetched } from '../use-fetched.ts';
import { BlockInspector } from './block-inspector.tsx';
import { BlockLegend } from './block-legend.tsx';
import { BlockTable } from './block-table.tsx';
import type { Focus } from './draw-stage.ts';
import { EngineHeading } from './engine-heading.tsx';
import { StagePicture } from './stage-picture.ts';
import { TransferNews } from './transfer-news.tsx';

export function EnginesView({ session, time }: { session: Session; time: ComponentChildren }) {
  const { state, actions } = session;
  const focus = useSignal<Focus | null>(null);
  /** What was pointed at last, here or in the chat. It stays in the inspector. */
  const remembered = useSignal<Pointed | null>(null);
  useSignalEffect(() => {
    if (state.pointed.value) remembered.value = state.pointed.value;
  });
  const picture = useMemo(() => new StagePicture(state), [state]);
  const redraw = useRef(() => {});
  const store = useFetched(state.store.value !== null, () => import('./store-view.tsx'));
  if (store !== null && store !== 'lost') picture.layer ??= new store.StoreLayer(state);
  const pinned = useRef(false);

  const show = (next: Focus | null) => {
    focus.value = next;
    picture.focus = next;
    actions.point(next && { at: 'block', ...next });
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
      remembered.value = null;
    } else if (isArrowKey(event.key)) {
      event.preventDefault();
      show(picture.moved(focus.value, event.key));
    }
  };

  return (
    <section class="panel engines" aria-label="The two engines">
      <div class="engines-heads">
        <EngineHeading session={session} engine="prefill" />
        <EngineHeading session={session} engine="decode" />
      </div>
      {/* A grid of cells on a canvas. Arrow keys move through it; the text below describes the current cell. */}
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
      {time}
      <BlockInspector at={remembered} state={state} />
      <TransferNews state={state} />
      {store !== null && store !== 'lost' && <store.StoreFigures state={state} />}
      <div class="engines-more">
        <BlockLegend state={state} />
        <BlockTable state={state} />
      </div>
    </section>
  );
}
