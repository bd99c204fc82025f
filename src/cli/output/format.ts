/** Text layout for a terminal of 80 columns. Numbers are formatted in measure/format.ts. */

import { formatMs } from '../../measure/format.ts';

export const WIDTH = 80;

/** Width of a string in columns: Han, Hangul and kana take two, combining marks none. Does not handle escape codes. */
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

/** One line of at most `width` columns; cut text ends in '…'. Control characters become spaces. */
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

/** At most `lines` lines; if cut, the last one ends in '…'. */
export function clipLines(text: string, width: number, lines: number): string[] {
  const all = wrap(text.replace(/\p{Cc}+/gu, ' ').trim(), width).map((line) => clip(line, width));
  if (all.length <= lines) return all;
  return [...all.slice(0, lines - 1), clip(`${all[lines - 1]} …`, width)];
}

/** Wraps text at spaces to at most `width` columns; later lines are indented. */
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

/**
 * A shell command, indented and continued over as many lines as needed; later lines are indented further. An option stays
 * with its value if both fit.
 */
export function commandLines(command: string): string[] {
  const indent = '  ';
  const further = ' '.repeat(6);
  const fits = (line: string): boolean => widthOf(line) <= WIDTH - widthOf(CONTINUED);
  if (widthOf(indent + command) <= WIDTH) return [indent + command];
  const lines = [indent];
  const add = (words: string): boolean => {
    const line = lines.at(-1)!;
    const next = line.trim() === '' ? line + words : `${line} ${words}`;
    if (line.trim() !== '' && !fits(next)) return false;
    lines[lines.length - 1] = next;
    return true;
  };
  for (const words of optionsWithValues(command)) {
    if (add(words)) continue;
    lines.push(further);
    if (fits(further + words)) add(words);
    else
      for (const word of shellWords(words)) {
        if (add(word)) continue;
        lines.push(further);
        add(word);
      }
  }
  return lines.map((line, i) => (i < lines.length - 1 ? line + CONTINUED : line));
}

const CONTINUED = ' \\';

/** The words of a command, quotes included. */
const shellWords = (command: string): string[] => command.match(/(?:'[^']*'|"[^"]*"|\\.|[^\s'"\\])+/g) ?? [];

/** Options with their values; before the first option, single words. */
function optionsWithValues(command: string): string[] {
  const units: string[] = [];
  let option = false;
  for (const word of shellWords(command)) {
    const begins = word.startsWith('--');
    if (option && !begins) units.push(`${units.pop()} ${word}`);
    else units.push(word);
    option ||= begins;
  }
  return units;
}

/** A sentence about engines whose software driver runs without its own threads. */
export const withoutThreads = (engineIds: readonly string[]): string =>
  `${engineIds.join(', ')} without driver threads, which makes steps of few rows faster and prefill slower (--decode-driver-threads).`;

/** What counts as good in a table with goodput. */
export const goodLegend = (slo: { slo_ttft_ms: number | null; slo_tpot_ms: number | null }): string => {
  const limits = [
    slo.slo_ttft_ms === null ? [] : [`a TTFT of at most ${formatMs(slo.slo_ttft_ms)} ms`],
    slo.slo_tpot_ms === null ? [] : [`a TPOT of at most ${formatMs(slo.slo_tpot_ms)} ms`],
  ].flat();
  return `good: requests with ${limits.join(' and ')}.`;
};
