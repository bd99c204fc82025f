/** Makes output safe for terminals, so that text from traces, reports or model files cannot control them. */
import type { Output } from '../deps.ts';

/** Control characters except newlines and tabs, and what turns the direction of the text after it. */
const UNSAFE = /[^\P{Cc}\n\t]|[\u202a-\u202e\u2066-\u2069]/gu;
const COLOR_OR_UNSAFE = new RegExp(`\\p{Cc}\\[[\\d;]*m|${UNSAFE.source}`, 'gu');

/** Escapes what is unsafe as in JSON. */
export const printable = (text: string): string => text.replace(UNSAFE, escaped);

const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** An output that only receives printable text; with `color`, colour codes pass. */
export function printableOutput(out: Output, color: boolean): Output {
  const isColor = (found: string): boolean => color && found.startsWith('\u001b[');
  return {
    write: (text) =>
      out.write(text.replace(COLOR_OR_UNSAFE, (found) => (isColor(found) ? found : printable(found)))),
    get isTTY() {
      return out.isTTY;
    },
    get columns() {
      return out.columns;
    },
  };
}
