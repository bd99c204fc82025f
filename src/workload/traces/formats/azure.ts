/** Azure's LLM inference traces, 2023 and 2024: TIMESTAMP, ContextTokens, GeneratedTokens. Nothing says what prompts hold. */
import { cells, type FormatReader, tokensIn } from './format.ts';

const HEADINGS = ['TIMESTAMP', 'ContextTokens', 'GeneratedTokens'];
const TIMESTAMP = /^(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(\.\d+)?(?:Z|\+00:00)?$/;

export const azure: FormatReader = {
  name: 'azure',
  traceBlockSize: 16,
  unit: 'line',
  parse(text) {
    if (/^timestamp\b/i.test(text)) return [];
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

/** Milliseconds, with what stands behind them; null for anything else. */
function timeOf(text: string): number | null {
  const found = TIMESTAMP.exec(text);
  if (!found) return null;
  const [year, month, day, hour, minute, second] = found.slice(1, 7).map(Number);
  const ms = Date.UTC(year!, month! - 1, day, hour, minute, second);
  // A 13th month is taken for one of the next year: days that stand before their month would be other days.
  const [date, time] = [found.slice(1, 4).join('-'), found.slice(4, 7).join(':')];
  if (!new Date(ms).toISOString().startsWith(`${date}T${time}`)) return null;
  return ms + 1000 * Number(found[7] ?? 0);
}
