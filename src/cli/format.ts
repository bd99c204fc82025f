/** Lines as a terminal of 80 columns shows them; numbers are measure/format.ts. */

export * from '../measure/format.ts';

export const WIDTH = 80;

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

/** Engines whose software driver has no threads of its own. */
export const withoutThreads = (engineIds: readonly string[]): string =>
  `${engineIds.join(', ')} without driver threads: steps of few rows are quicker so, prefill slower (--decode-driver-threads).`;
