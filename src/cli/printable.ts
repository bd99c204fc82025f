/** What commands print, as a terminal may get it: what stands in a trace, a report or a model's files cannot steer it. */
import type { Output } from './deps.ts';

/** Control characters as JSON writes them, but for line ends and tabs. */
export const printable = (text: string): string => text.replace(/[^\P{Cc}\n\t]/gu, escaped);

const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** An output that is given nothing else; in colours these pass. */
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
