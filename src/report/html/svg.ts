/**
 * What the charts are drawn with: scales, ticks, and a frame that holds a drawing twice, for a wide page and for a phone,
 * so that text keeps its size. Colours are classes; style.ts gives them for light and dark.
 */
import { html, type Markup, nothing } from './markup.ts';

export interface Canvas {
  /** Units of the viewBox; about CSS pixels. */
  width: number;
  narrow: boolean;
}

const WIDE: Canvas = { width: 840, narrow: false };
const NARROW: Canvas = { width: 358, narrow: true };

export interface Drawing {
  height: number;
  body: readonly Markup[];
}

/** `summary` is what the chart shows, in a sentence, for those who cannot see it. */
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

/** 1, 2 or 5 times a power of ten, so that about `wanted` of them span so much. */
function stepOf(span: number, wanted: number): number {
  const rough = span / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((n) => n * power).find((size) => size >= rough * 0.999)!;
}

/** `wanted`: about how many ticks. */
export function linearScale(max: number, from: number, to: number, wanted: number): Scale {
  const top = max > 0 ? max : 1;
  const step = stepOf(top, wanted);
  const scale = (value: number): number => from + ((to - from) * value) / top;
  const ticks = Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, i) => i * step);
  return Object.assign(scale, { ticks });
}

/** Ticks at powers of ten, at 2 and 5 times them where the range is short, and at even steps where it has hardly any of these. */
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

/** A tick's label: no more figures than it needs. */
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

/** Horizontal lines with labels at the left. */
export function yAxis(scale: Scale, left: number, right: number): Markup {
  const lines = scale.ticks.map((tick) => {
    const y = scale(tick);
    return html`<line class="grid" x1="${left}" x2="${right}" y1="${y}" y2="${y}"/><text class="tick" x="${left - 6}" y="${y + 4}" text-anchor="end">${tickText(tick)}</text>`;
  });
  return html`${lines}`;
}

/** About how wide a text of the charts' size is. */
export const textWidth = (text: string): number => text.length * 6.4;

export interface Key {
  label: string;
  className: string;
}

/** Colours and their names, in as many lines as they need; a name that is longer than a line is pressed together. */
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

/** A class for a mode or any other series: those of the same name look alike in every chart. */
const KNOWN: Readonly<Record<string, string>> = {
  monolithic: 'c-mono',
  unidirectional: 'c-uni',
  bidirectional: 'c-bi',
  'decode-local': 'c-local',
  recompute: 'c-uni',
  pull: 'c-bi',
  prefill: 'c-uni',
  decode: 'c-local',
};
const OTHERS = ['c-bi', 'c-uni', 'c-local', 'c-mono', 'c-extra'] as const;

export const seriesClass = (name: string, index: number): string =>
  KNOWN[name] ?? KNOWN[name.split(/[ ,]/)[0]!] ?? OTHERS[index % OTHERS.length]!;

/** The same for several in one picture, each another one as long as there are any. */
export function seriesClasses(names: readonly string[]): string[] {
  const used = new Set<string>();
  return names.map((name, i) => {
    const wanted = seriesClass(name, i);
    const chosen = used.has(wanted) ? (OTHERS.find((one) => !used.has(one)) ?? wanted) : wanted;
    used.add(chosen);
    return chosen;
  });
}

/** Units at the left for names of so many characters, in letters that are bold. */
export const labelRoom = (names: readonly string[]): number =>
  Math.min(MOST_ROOM, Math.max(LEAST_ROOM, ...names.map((name) => boldWidth(name) + GAP)));

const LEAST_ROOM = 128;
const MOST_ROOM = 280;
const BOLDER = 1.08;
/** Between a name and what stands beside it. */
export const GAP = 12;

/** A name at the left, pressed together where it is longer than that: else it would lie over what stands beside it. */
export function nameAt(name: string, y: number, room: number): Markup {
  return html`<text class="strong" x="0" y="${y}"${pressed(boldWidth(name), room)}>${name}</text>`;
}

const pressed = (width: number, room: number): Markup =>
  width > room ? html` textLength="${room}" lengthAdjust="spacingAndGlyphs"` : nothing;

const boldWidth = (text: string): number => textWidth(text) * BOLDER;

/** Units for a name that has a bold text at the other end of its line. */
export const roomBeside = (text: string, { width }: Canvas): number => width - boldWidth(text) - GAP;
