/** The timeline's axis: the milliseconds in view, zoom and pan, and ticks. No DOM. */
import { clamp } from '../geometry.ts';

/** Milliseconds in view. */
export interface Domain {
  startMs: number;
  endMs: number;
}

export const spanOf = ({ startMs, endMs }: Domain): number => endMs - startMs;

/** The smallest span in view; browsers' clocks are not finer. */
export const LEAST_SPAN_MS = 0.05;

export const toX = (domain: Domain, width: number, ms: number): number =>
  ((ms - domain.startMs) / spanOf(domain)) * width;

export const toMs = (domain: Domain, width: number, x: number): number =>
  domain.startMs + (x / width) * spanOf(domain);

/** Zooms around a moment, which keeps its place. A factor below 1 shows less time. The result stays inside `whole`. */
export function zoom(domain: Domain, whole: Domain, aboutMs: number, factor: number): Domain {
  const span = clamp(spanOf(domain) * factor, LEAST_SPAN_MS, Math.max(spanOf(whole), LEAST_SPAN_MS));
  const share = spanOf(domain) === 0 ? 0.5 : (aboutMs - domain.startMs) / spanOf(domain);
  const startMs = aboutMs - share * span;
  return within({ startMs, endMs: startMs + span }, whole);
}

/** Moves the view by milliseconds, inside `whole`. */
export function pan(domain: Domain, whole: Domain, byMs: number): Domain {
  return within({ startMs: domain.startMs + byMs, endMs: domain.endMs + byMs }, whole);
}

/** The same span, moved inside `whole`; `whole` itself if it is shorter. */
function within(domain: Domain, whole: Domain): Domain {
  const span = spanOf(domain);
  if (span >= spanOf(whole)) return whole;
  const startMs = clamp(domain.startMs, whole.startMs, whole.endMs - span);
  return { startMs, endMs: startMs + span };
}

/** Two fingers: the moments that they touched stay under them. */
export function pinch(
  before: Domain,
  whole: Domain,
  width: number,
  from: readonly [number, number],
  to: readonly [number, number],
): Domain {
  const gap = Math.max(Math.abs(to[1] - to[0]), 8);
  const factor = Math.max(Math.abs(from[1] - from[0]), 8) / gap;
  const middle = toMs(before, width, (from[0] + from[1]) / 2);
  const zoomed = zoom(before, whole, middle, factor);
  const movedBy = (to[0] + to[1]) / 2 - toX(zoomed, width, middle);
  return pan(zoomed, whole, (-movedBy / width) * spanOf(zoomed));
}

/** Ticks at round numbers of milliseconds after `originMs`, at least `leastGap` pixels apart. */
export function ticks(domain: Domain, width: number, originMs: number, leastGap = 72): number[] {
  const step = tickStep(domain, width, leastGap);
  const first = Math.ceil((domain.startMs - originMs) / step);
  const last = Math.floor((domain.endMs - originMs) / step);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => originMs + (first + i) * step);
}

export function tickStep(domain: Domain, width: number, leastGap = 72): number {
  const rough = (spanOf(domain) * leastGap) / Math.max(width, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 5, 10].find((candidate) => candidate * power >= rough) ?? 10;
  return factor * power;
}

/** A tick's label, with as many digits as tell it from the next. All labels of an axis that ends at `endMs` have one unit. */
export function tickLabel(ms: number, step: number, endMs: number): string {
  const [unit, scale] = step >= 1000 || endMs >= 10_000 ? ['s', 1000] : ['ms', 1];
  const digits = Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9));
  // A tick is a multiple of the step, up to rounding; adding 0 turns -0 into 0.
  const value = (Math.round(ms / step) * step) / scale + 0;
  const fraction = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return `${value.toLocaleString('en-US', fraction)} ${unit}`;
}
