/**
 * Chart primitives: scales, ticks, legends, and a frame that contains a drawing twice, for wide pages and for phones, so
 * that text keeps its size. Colours are CSS classes; style.ts defines them for light and dark.
 */
import { html, type Markup, nothing } from './markup.ts';

export interface Canvas {
  /** In units of the viewBox, about CSS pixels. */
  width: number;
  narrow: boolean;
}

const WIDE: Canvas = { width: 840, narrow: false };
const NARROW: Canvas = { width: 358, narrow: true };

export interface Drawing {
  height: number;
  body: readonly Markup[];
}

/** `summary` describes the chart in a sentence, for screen readers. */
export function chart(title: string, summary: string, draw: (canvas: Canvas) => Drawing): Markup {
  const picture = (canvas: Canvas): Markup => {
    const { height, body } = draw(canvas);
    return html`<svg class="${canvas.narrow ? 'narrow' : 'wide'}" viewBox="0 0 ${canvas.width} ${height}" role="img" aria-label="${`${title}. ${summary}`}">${body}</svg>`;
  };
  return html`${picture(WIDE)}${picture(NARROW)}`;
}

export interface Scale {
  (value: number): number;
  ticks: readonly number[];
}

/** A step of 1, 2 or 5 times a power of ten, so that about `wanted` steps cover the span. */
function stepOf(span: number, wanted: number): number {
  const rough = span / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((n) => n * power).find((size) => size >= rough * 0.999)!;
}

/** `wanted`: approximate number of ticks. */
export function linearScale(max: number, from: number, to: number, wanted: number): Scale {
  const top = max > 0 ? max : 1;
  const step = stepOf(top, wanted);
  const scale = (value: number): number => from + ((to - from) * value) / top;
  const ticks = Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, i) => i * step);
  return Object.assign(scale, { ticks });
}

/** Ticks at powers of ten; for short ranges also at 2 and 5 times them; at even steps if fewer than two would remain. */
export function logScale(min: number, max: number, from: number, to: number): Scale {
  const [low, high] = [Math.log10(min), Math.log10(max <= min ? min * 10 : max)];
  const scale = (value: number): number => from + ((to - from) * (Math.log10(value) - low)) / (high - low);
  const steps = high - low > 2.5 ? [1] : [1, 2, 5];
  let ticks: number[] = [];
  for (let power = Math.floor(low); power <= Math.ceil(high); power++) {
    for (const n of steps) {
      const tick = n * 10 ** power;
      if (tick >= min * 0.999 && tick <= max * 1.001) ticks.push(tick);
    }
  }
  if (ticks.length < 2) {
    const step = stepOf(10 ** high - min, 3);
    const first = Math.ceil(min / step);
    ticks = Array.from({ length: Math.floor(10 ** high / step) - first + 1 }, (_, i) => (first + i) * step);
  }
  return Object.assign(scale, { ticks });
}

/** A tick's label, with at most three significant digits. */
function tickText(value: number): string {
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))} M`;
  if (value >= 10_000) return `${Number((value / 1000).toPrecision(3))}k`;
  return String(Number(value.toPrecision(3)));
}

/** Vertical lines with labels below. */
export function xAxis(scale: Scale, top: number, bottom: number, label: string, right: number): Markup {
  const lines = scale.ticks.map((tick) => {
    const x = scale(tick);
    return html`<line class="grid" x1="${x}" x2="${x}" y1="${top}" y2="${bottom}"/><text class="tick" x="${x}" y="${bottom + 15}" text-anchor="middle">${tickText(tick)}</text>`;
  });
  return html`${lines}<text class="tick" x="${right}" y="${bottom + 30}" text-anchor="end">${label}</text>`;
}

/** Horizontal lines with labels on the left. */
export function yAxis(scale: Scale, left: number, right: number): Markup {
  const lines = scale.ticks.map((tick) => {
    const y = scale(tick);
    return html`<line class="grid" x1="${left}" x2="${right}" y1="${y}" y2="${y}"/><text class="tick" x="${left - 6}" y="${y + 4}" text-anchor="end">${tickText(tick)}</text>`;
  });
  return html`${lines}`;
}

/** Approximate width of a text at the charts' font size. */
export const textWidth = (text: string): number => text.length * 6.4;

export interface Key {
  label: string;
  className: string;
}

/** A legend over as many lines as needed. A name longer than a line is compressed. */
export function legend(
  keys: readonly Key[],
  x: number,
  y: number,
  width: number,
): { height: number; body: Markup } {
  let [left, line] = [x, 0];
  const room = width - 18;
  const parts = keys.map(({ label, className }) => {
    const size = 18 + Math.min(textWidth(label), room) + 14;
    if (left > x && left + size > x + width) [left, line] = [x, line + 1];
    const at = left;
    left += size;
    const top = y + line * 20;
    return html`<rect class="${className}" x="${at}" y="${top}" width="12" height="12" rx="2"/><text x="${at + 18}" y="${top + 10}"${pressed(textWidth(label), room)}>${label}</text>`;
  });
  return {
    height: keys.length === 0 ? 0 : (line + 1) * 20,
    body: keys.length === 0 ? nothing : html`${parts}`,
  };
}

/** CSS classes by series name, so that a mode has the same colour in every chart. */
const KNOWN: ReadonlyMap<string, string> = new Map([
  ['monolithic', 'c-mono'],
  ['unidirectional', 'c-uni'],
  ['bidirectional', 'c-bi'],
  ['decode-local', 'c-local'],
  ['recompute', 'c-uni'],
  ['pull', 'c-bi'],
  ['prefill', 'c-uni'],
  ['decode', 'c-local'],
]);
const OTHERS = ['c-bi', 'c-uni', 'c-local', 'c-mono', 'c-extra'] as const;

export const seriesClass = (name: string, index: number): string =>
  KNOWN.get(name) ?? KNOWN.get(name.split(/[ ,]/)[0]!) ?? OTHERS[index % OTHERS.length]!;

/** Classes for several series in one chart, all different as long as the colours last. */
export function seriesClasses(names: readonly string[]): string[] {
  const used = new Set<string>();
  return names.map((name, i) => {
    const wanted = seriesClass(name, i);
    const chosen = used.has(wanted) ? (OTHERS.find((one) => !used.has(one)) ?? wanted) : wanted;
    used.add(chosen);
    return chosen;
  });
}

/** Room on the left for these names in bold. */
export const labelRoom = (names: readonly string[]): number =>
  Math.min(MOST_ROOM, Math.max(LEAST_ROOM, ...names.map((name) => boldWidth(name) + GAP)));

const LEAST_ROOM = 128;
const MOST_ROOM = 280;
const BOLDER = 1.08;
/** Gap between a name and what is next to it. */
export const GAP = 12;

/** A name on the left, compressed if longer than `room`, so that it does not cover its neighbour. */
export function nameAt(name: string, y: number, room: number): Markup {
  return html`<text class="strong" x="0" y="${y}"${pressed(boldWidth(name), room)}>${name}</text>`;
}

const pressed = (width: number, room: number): Markup =>
  width > room ? html` textLength="${room}" lengthAdjust="spacingAndGlyphs"` : nothing;

const boldWidth = (text: string): number => textWidth(text) * BOLDER;

/** Room for a name on a line that ends with a bold text. */
export const roomNextTo = (text: string, { width }: Canvas): number => width - boldWidth(text) - GAP;
