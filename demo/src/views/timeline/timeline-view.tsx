/** The timeline of the last turns. Wheel, drag, pinch and keys zoom and move it. */
import { useSignal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { Session, SessionState, Span } from '../../session/types.ts';
import { buttonLabel } from '../stage/describe-block.ts';
import { drawnIds } from '../stage/direction.ts';
import { Surface } from '../surface.tsx';
import { CLOCKS, describeSpan, spanInWords } from './describe-span.ts';
import { SpanTable } from './span-table.tsx';
import { listenToHands } from './timeline-hands.ts';
import { type Bar, FITS, type Fit } from './timeline-model.ts';
import { TimelinePicture } from './timeline-picture.ts';

export function TimelineView({ session: { state } }: { session: Session }) {
  const fit = useSignal<Fit | null>('first token');
  const focus = useSignal<Bar | null>(null);
  const picture = useMemo(() => new TimelinePicture(state, fit, focus), [state]);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => listenToHands(box.current!, picture), [picture]);

  return (
    <section class="panel timeline" aria-label="Timeline">
      <div class="panel-head">
        <h2>Where the time went</h2>
        {hasOthers(state) && <span class="tag">{drawnNames(state)} only</span>}
        <fieldset class="segments">
          <legend class="visually-hidden">Show</legend>
          {FITS.map((name) => (
            <button
              type="button"
              key={name}
              aria-pressed={fit.value === name}
              onClick={() => {
                fit.value = name;
              }}
            >
              {name === 'first token' ? 'to the first token' : name}
            </button>
          ))}
        </fieldset>
      </div>
      <div
        ref={box}
        class="timeline-canvas"
        role="application"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: an application is walked through with the keyboard
        tabIndex={0}
        aria-label="Timeline. Arrow keys go from bar to bar, plus and minus zoom, Shift with arrow keys moves, 0 shows the last turn."
        aria-describedby="timeline-inspector"
        onKeyDown={(event) => {
          if (picture.key(event)) event.preventDefault();
        }}
      >
        <Surface
          name="timeline"
          heightFor={(width) => picture.layout(width).height}
          watch={() => picture.watch()}
          draw={(frame) => picture.draw(frame)}
          onReady={(redraw) => {
            picture.redraw = redraw;
          }}
        />
      </div>
      <div class="inspector is-short" id="timeline-inspector">
        {focus.value ? <SpanDetails span={focus.value.span} state={state} /> : <TimelineHint />}
        <p class="visually-hidden" aria-live="polite">
          {focus.value ? spanInWords(focus.value.span, drawnIds(state)) : ''}
        </p>
      </div>
      <SpanTable state={state} />
    </section>
  );
}

/** Whether there are live engines besides those that are drawn. */
const hasOthers = ({ engines, drawn }: SessionState): boolean =>
  [...engines.value.values()].some(
    ({ engineId, role, alive }) => alive.value && engineId !== drawn[role].value?.engineId,
  );

function drawnNames(state: SessionState): string {
  const { prefill, decode } = drawnIds(state);
  return [prefill, decode].flatMap((id) => (id === null ? [] : buttonLabel(id))).join(' and ');
}

function TimelineHint() {
  return (
    <p class="inspector-hint">
      Bars with a dark edge: {CLOCKS.gpu}. Plain: {CLOCKS.host}. Hatched: {CLOCKS.modelled}. Wheel or pinch to
      zoom, drag to move.
    </p>
  );
}

function SpanDetails({ span, state }: { span: Span; state: SessionState }) {
  const { title, meaning, where, took, moved, clock, more } = describeSpan(span, drawnIds(state));
  return (
    <p class="inspector-title">
      <strong>{title}</strong> on {where}: <span class="number">{took}</span>
      {moved && <span>, {moved}</span>}
      {more && <span>, {more}</span>}
      <span class="tag">{clock}</span>
      {meaning && <span class="inspector-meaning">{meaning}</span>}
    </p>
  );
}
