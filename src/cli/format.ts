/** Numbers and lines as a terminal of 80 columns shows them. */

export const WIDTH = 80;

/** Milliseconds with three figures or so, no unit. */
export function formatMs(ms: number | null): string {
  if (ms === null) return '-';
  if (ms < 10) return ms.toFixed(2);
  return ms < 100 ? ms.toFixed(1) : ms.toFixed(0);
}

/** Seconds, with the unit. */
export const formatSeconds = (ms: number): string => `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;

/** Megabytes (10^6 bytes), no unit; '-' for none. */
export function formatMb(bytes: number): string {
  if (bytes === 0) return '-';
  const mb = bytes / 1e6;
  if (mb < 1) return mb.toFixed(3);
  return mb < 100 ? mb.toFixed(2) : mb.toFixed(0);
}

/** Gigabytes a second, no unit. */
export function formatGbps(gbps: number | null): string {
  if (gbps === null) return '-';
  if (gbps < 0.001) return '<.001';
  if (gbps < 1) return gbps.toFixed(3);
  return gbps < 100 ? gbps.toFixed(2) : gbps.toFixed(0);
}

/** Bytes with a binary unit. */
export function formatBytes(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${Number.isInteger(value) ? value : value.toFixed(1)} ${units[unit]}`;
}

export const formatCount = (n: number): string => String(n).replace(/\B(?=(\d{3})+$)/g, ',');

/** `1 turn`, `2 turns`. */
export const plural = (n: number, noun: string): string => `${formatCount(n)} ${noun}${n === 1 ? '' : 's'}`;

/** 1,769,472 as '1.8 M'. */
export function formatParameters(n: number): string {
  if (n >= 1e9) return `${(n / 1e9).toFixed(2)} B`;
  return n >= 1e6 ? `${(n / 1e6).toFixed(1)} M` : `${(n / 1e3).toFixed(0)} k`;
}

/** Columns that a string takes: Han, Hangul and kana take two, combining marks none. Knows no escape codes. */
export function widthOf(text: string): number {
  let width = 0;
  for (const character of text) {
    if (/\p{Mark}|\p{Cf}/u.test(character)) continue;
    width +=
      /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}]/u.test(
        character,
      )
        ? 2
        : 1;
  }
  return width;
}

export const fill = (text: string, width: number): string =>
  text + ' '.repeat(Math.max(0, width - widthOf(text)));
export const fillLeft = (text: string, width: number): string =>
  ' '.repeat(Math.max(0, width - widthOf(text))) + text;

/** One line of at most `width` columns; what is cut off ends in '…'. Control characters become spaces. */
export function clip(text: string, width: number): string {
  const line = text.replace(/\p{Cc}+/gu, ' ').trim();
  if (widthOf(line) <= width) return line;
  let out = '';
  for (const character of line) {
    if (widthOf(out + character) > width - 1) break;
    out += character;
  }
  return `${out}…`;
}

/** At most `lines` lines; the last one tells that more was cut off. */
export function clipLines(text: string, width: number, lines: number): string[] {
  const all = wrap(text.replace(/\p{Cc}+/gu, ' ').trim(), width).map((line) => clip(line, width));
  if (all.length <= lines) return all;
  return [...all.slice(0, lines - 1), clip(`${all[lines - 1]} …`, width)];
}

/** Lines of at most `width` columns, broken at spaces where there are any; later lines are indented. */
export function wrap(text: string, width: number, indent = ''): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    const next = line === '' ? word : `${line} ${word}`;
    if (line === '' || widthOf(next) <= width) {
      line = next;
      continue;
    }
    lines.push(line);
    line = indent + word;
  }
  lines.push(line);
  return lines;
}
