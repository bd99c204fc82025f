/** An opened tile: the engine's blocks, drawn like those of the page's P and D, with the content of each. */
import { useSignal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { LiveBlocks } from '../../../src/simulate/live/view.ts';
import { AsTable } from '../views/as-table.tsx';
import { isArrowKey } from '../views/geometry.ts';
import { BlockDetails } from '../views/stage/block-inspector.tsx';
import { BlockRows } from '../views/stage/block-table.tsx';
import { blockInWords } from '../views/stage/describe-block.ts';
import { Surface } from '../views/surface.tsx';
import type { Fleet } from './fleet.ts';
import { shortName } from './names.ts';
import { OpenedPicture } from './opened-picture.ts';

export function OpenedView({ fleet }: { fleet: Fleet }) {
  const engineId = fleet.opened.value;
  return engineId === null ? null : <Opened key={engineId} fleet={fleet} engineId={engineId} />;
}

function Opened({ fleet, engineId }: { fleet: Fleet; engineId: string }) {
  const name = shortName(engineId);
  const picture = useMemo(() => new OpenedPicture(engineId.startsWith('prefill') ? 'prefill' : 'decode'), []);
  const { role } = picture;
  const at = useSignal<number | null>(null);
  const redraw = useRef(() => {});
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.scrollIntoView({ block: 'nearest' }), []);
  const { look } = fleet;
  const now = (): LiveBlocks | null => {
    const opened = look.value?.opened ?? null;
    return opened?.engineId === engineId ? opened : null;
  };
  picture.take(now());
  const { blocks } = picture;
  const nowMs = fleet.nowMs.value;
  const point = (id: number | null) => {
    at.value = id;
    picture.focus = id;
    redraw.current();
  };
  const pointTo = (event: PointerEvent) => {
    const bounds = (event.currentTarget as HTMLElement).getBoundingClientRect();
    point(picture.at({ x: event.clientX - bounds.x, y: event.clientY - bounds.y }) ?? at.peek());
  };
  const close = () => {
    // This button goes with the view.
    document.querySelector<HTMLElement>('.fleet-open[aria-pressed="true"]')?.focus();
    fleet.open(engineId);
  };
  const stored = (id: number) => picture.stored(id, (look.value?.store ?? null) !== null);
  const shown = at.value === null ? undefined : blocks[at.value];
  // Heard once per block that is gone to, not with every change of a busy fleet.
  const heard = useMemo(() => (shown ? blockInWords(shown, role, nowMs, stored(shown.id)) : ''), [shown?.id]);
  const gone =
    look.value !== null && !look.value.engines.some((each) => each.engineId === engineId && each.pool);
  return (
    <section class="fleet-opened" aria-label={`Blocks of ${name}`}>
      <div class="panel-head">
        <h3 ref={heading} class={role === 'prefill' ? 'is-p' : 'is-d'}>
          {name}, block by block
        </h3>
        <button type="button" onClick={close}>
          Close
        </button>
      </div>
      {gone && <p class="quiet-text">{name} is gone.</p>}
      <div
        class="stage"
        role="application"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: an application is walked through with the keyboard
        tabIndex={0}
        aria-label={`KV blocks of ${name}. Arrow keys go from block to block; Escape leaves.`}
        aria-describedby="fleet-block"
        onPointerMove={pointTo}
        // A tap causes no pointermove.
        onPointerDown={pointTo}
        onKeyDown={(event) => {
          if (event.key === 'Escape') point(null);
          if (!isArrowKey(event.key)) return;
          event.preventDefault();
          point(picture.moved(at.peek(), event.key));
        }}
      >
        <Surface
          name="fleet blocks"
          heightFor={(width) => picture.layout(width).height}
          watch={() => void look.value}
          draw={(frame) => {
            picture.take(now());
            picture.draw(frame);
            return false;
          }}
          onReady={(again) => {
            redraw.current = again;
          }}
        />
      </div>
      <div class="inspector" id="fleet-block">
        {shown ? (
          <>
            <BlockDetails role={role} block={shown} nowMs={nowMs} stored={stored(shown.id)} />
            {shown.conversation !== null && <p class="quiet-text">conversation {shown.conversation}</p>}
          </>
        ) : (
          <p class="inspector-hint">Point at a block, or go to it with Tab and the arrow keys.</p>
        )}
        <p class="visually-hidden" aria-live="polite">
          {heard}
        </p>
      </div>
      <AsTable summary={`Blocks of ${name} as a table`}>
        <BlockRows role={role} name={name} blocks={blocks} nowMs={nowMs} stored={stored} />
      </AsTable>
    </section>
  );
}
