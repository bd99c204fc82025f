/** Makes output safe for terminals, so that text from traces, reports or model files cannot control them. */
import type { Output } from '../deps.ts';

/** Escapes control characters as in JSON, except newlines and tabs. */
export const printable = (text: string): string => text.replace(/[^\P{Cc}\n\t]/gu, escaped);

const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** An output that only receives printable text; with `color`, colour codes pass. */
export function printableOutput(out: Output, color: boolean): Output {
  const isColor = (found: string): boolean => color && found.startsWith('\u001b[');
  return {
    write: (text) =>
      out.write(
        text.replace(/\p{Cc}\[[\d;]*m|[^\P{Cc}\n\t]/gu, (found) =>
          isColor(found) ? found : printable(found),
        ),
      ),
    get isTTY() {
      return out.isTTY;
    },
    get columns() {
      return out.columns;
    },
  };
}
