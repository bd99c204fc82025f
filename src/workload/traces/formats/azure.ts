/**
 * Azure's LLM inference traces, 2023 and 2024: TIMESTAMP, ContextTokens, GeneratedTokens. The files do not say what
 * prompts contain.
 */
import { cells, type FormatReader, tokensIn } from './format.ts';

const HEADINGS = ['TIMESTAMP', 'ContextTokens', 'GeneratedTokens'];
const DATE = /([1-9]\d{3})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])/;
const TIME = /([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(\.\d+)?/;
const TIMESTAMP = new RegExp(`^${DATE.source}[ T]${TIME.source}(?:Z|\\+00:00)?$`);

export const azure: FormatReader = {
  name: 'azure',
  traceBlockSize: 16,
  unit: 'line',
  parse(text) {
    if (/^"?timestamp\b/i.test(text)) return [];
    const row = cells(text, HEADINGS);
    if ('bad' in row) return { bad: row.bad! };
    const timeMs = timeOf(row.TIMESTAMP!);
    if (timeMs === null)
      return { bad: `TIMESTAMP is ${row.TIMESTAMP}: wanted a time such as 2023-11-16 18:15:46.6805900` };
    const inputTokens = tokensIn(row.ContextTokens, 'ContextTokens');
    if (typeof inputTokens === 'object') return inputTokens;
    const outputTokens = tokensIn(row.GeneratedTokens, 'GeneratedTokens');
    if (typeof outputTokens === 'object') return outputTokens;
    return [{ timeMs, inputTokens, outputTokens, hashIds: null, origin: { kind: 'unsaid' } }];
  },
};

/** Milliseconds since 1970, with fractions; null if the text is not a time. */
function timeOf(text: string): number | null {
  const found = TIMESTAMP.exec(text);
  if (!found) return null;
  const [year, month, day, hour, minute, second] = found.slice(1, 7).map(Number);
  const ms = Date.UTC(year!, month! - 1, day, hour, minute, second);
  // Date.UTC takes a 31st of June for the 1st of July.
  if (new Date(ms).getUTCDate() !== day) return null;
  return ms + 1000 * Number(found[7] ?? 0);
}
