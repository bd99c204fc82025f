/** The timeline's state between frames: bars placed once per change, the time in view, and input. */
import type { Signal } from '@preact/signals';
import type { SessionState, Span } from '../../session/types.ts';
import type { Frame } from '../frame.ts';
import { leastFont } from '../palette.ts';
import { drawnIds } from '../stage/direction.ts';
import { drawTimeline } from './draw-timeline.ts';
import { type Domain, pan, pinch, spanOf, toMs, zoom } from './time-scale.ts';
import {
  type Bar,
  barAt,
  barFrom,
  type Fit,
  fitTo,
  type LaneBars,
  layoutTimeline,
  placeSpans,
  type TimelineLayout,
  wholeOf,
} from './timeline-model.ts';

export class TimelinePicture {
  redraw = () => {};
  readonly #state: SessionState;
  readonly #fit: Signal<Fit | null>;
  readonly #focus: Signal<Bar | null>;
  /** `key`: the drawn engines. */
  #placed: { of: readonly Span[]; key: string; lanes: readonly LaneBars[] } | null = null;
  #since: { all: readonly Span[]; began: number; spans: readonly Span[] } | null = null;
  #rows: number[] = [];
  #chosen: Domain | null = null;
  #shown: Domain = { startMs: 0, endMs: 1000 };
  #width = 1;

  constructor(state: SessionState, fit: Signal<Fit | null>, focus: Signal<Bar | null>) {
    this.#state = state;
    this.#fit = fit;
    this.#focus = focus;
  }

  watch(): void {
    this.#state.spans.value;
    drawnIds(this.#state);
    this.#state.turns.value;
    this.#fit.value;
    this.#focus.value;
    this.#state.time.value;
    this.#state.beganMs.value;
  }

  layout(width: number): TimelineLayout {
    this.#place();
    return layoutTimeline(width, this.#rows, leastFont.peek());
  }

  /** Spans since the conversation began. Earlier ones belong to turns that are gone. */
  #spans(): readonly Span[] {
    const all = this.#state.spans.peek();
    const began = this.#state.beganMs.peek();
    if (this.#since?.all !== all || this.#since.began !== began)
      this.#since = { all, began, spans: all.filter(({ startMs }) => startMs >= began) };
    return this.#since.spans;
  }

  /** Lanes only grow, so that the page does not jump while a turn runs. */
  #place(): readonly LaneBars[] {
    const spans = this.#spans();
    const { prefill, decode } = drawnIds(this.#state);
    const key = `${prefill} ${decode}`;
    if (this.#placed?.of === spans && this.#placed.key === key) return this.#placed.lanes;
    const lanes = placeSpans(spans, { prefill, decode });
    this.#placed = { of: spans, key, lanes };
    if (spans.length === 0) this.#rows = [];
    this.#rows = lanes.map(({ rows }, i) => Math.max(rows, this.#rows[i] ?? 0));
    return lanes;
  }

  draw({ context, width, palette }: Frame): boolean {
    const { turns, nowMs } = this.#state;
    const lanes = this.#place();
    const fit = this.#fit.peek();
    this.#width = width;
    const wanted = fit === null ? this.#chosen : fitTo(fit, turns.peek(), nowMs());
    this.#shown = wanted ?? wholeOf(this.#spans(), turns.peek());
    const model = {
      lanes,
      turns: turns.peek(),
      domain: this.#shown,
      focus: this.#focus.peek(),
      nowMs: nowMs(),
    };
    drawTimeline(context, width, this.layout(width), model, palette);
    // While a turn runs, its end moves with the clock.
    return fit !== null && turns.peek().at(-1)?.endMs === null;
  }

  get #plot(): number {
    return this.#width - this.layout(this.#width).gutter;
  }

  get #whole(): Domain {
    return wholeOf(this.#spans(), this.#state.turns.peek());
  }

  get domain(): Domain {
    return this.#shown;
  }

  /** Shows a domain chosen by the user, until a fit is chosen again. */
  choose(domain: Domain): void {
    this.#chosen = domain;
    this.#fit.value = null;
    this.redraw();
  }

  zoomAt(x: number, factor: number): void {
    const about = toMs(this.#shown, this.#plot, x - this.layout(this.#width).gutter);
    this.choose(zoom(this.#shown, this.#whole, about, factor));
  }

  panBy(pixels: number, from: Domain = this.#shown): void {
    this.choose(pan(from, this.#whole, (-pixels / this.#plot) * spanOf(from)));
  }

  pinched(before: Domain, from: [number, number], to: [number, number]): void {
    const { gutter } = this.layout(this.#width);
    const inside = ([a, b]: [number, number]): [number, number] => [a - gutter, b - gutter];
    this.choose(pinch(before, this.#whole, this.#plot, inside(from), inside(to)));
  }

  point(point: { x: number; y: number } | null): void {
    const bar = point && barAt(this.#place(), this.layout(this.#width), this.#shown, this.#width, point);
    if (bar !== this.#focus.peek()) this.#focus.value = bar;
  }

  key({ key, shiftKey }: KeyboardEvent): boolean {
    const middle = this.#width / 2;
    if (key === '+' || key === '=') this.zoomAt(middle, 0.7);
    else if (key === '-') this.zoomAt(middle, 1 / 0.7);
    else if (key === '0') this.#fit.value = 'first token';
    else if (key === 'Escape') this.#focus.value = null;
    else if (shiftKey && key === 'ArrowLeft') this.panBy(this.#plot * 0.15);
    else if (shiftKey && key === 'ArrowRight') this.panBy(-this.#plot * 0.15);
    else if (key === 'ArrowLeft' || key === 'ArrowRight' || key === 'ArrowUp' || key === 'ArrowDown') {
      this.#focus.value = barFrom(this.#place(), this.#shown, this.#focus.peek(), key);
    } else return false;
    return true;
  }
}
