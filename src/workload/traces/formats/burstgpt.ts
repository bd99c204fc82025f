/**
 * BurstGPT's CSV: Timestamp in s, Model, Request tokens, Response tokens, Total tokens, Log Type; newer files have Session ID
 * and Elapsed time behind the first. A failed request has 0 response tokens.
 */
import { cells, type FormatReader, tokensIn } from './format.ts';

const FIRST = 'Timestamp';
const MIDDLE = ['Session ID', 'Elapsed time'];
const REST = ['Model', 'Request tokens', 'Response tokens', 'Total tokens', 'Log Type'];
const OLD = [FIRST, ...REST];
const NEW = [FIRST, ...MIDDLE, ...REST];

export const burstgpt: FormatReader = {
  name: 'burstgpt',
  traceBlockSize: 16,
  unit: 'line',
  parse(text) {
    if (text.startsWith(FIRST)) return [];
    const row = cells(text, text.split(',').length === OLD.length ? OLD : NEW);
    if ('bad' in row) return { bad: row.bad! };
    const seconds = row[FIRST] === '' ? Number.NaN : Number(row[FIRST]);
    if (!(seconds >= 0)) return { bad: `Timestamp is ${row[FIRST] || 'empty'}: wanted seconds, 0 or more` };
    const inputTokens = tokensIn(row['Request tokens'], 'Request tokens');
    if (typeof inputTokens === 'object') return inputTokens;
    const outputTokens = tokensIn(row['Response tokens'], 'Response tokens');
    if (typeof outputTokens === 'object') return outputTokens;
    const session = row['Session ID'];
    return [
      {
        timeMs: 1000 * seconds,
        inputTokens,
        outputTokens,
        hashIds: null,
        origin: session ? { kind: 'session', id: session, delayMs: null } : { kind: 'unsaid' },
      },
    ];
  },
};
