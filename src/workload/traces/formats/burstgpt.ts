/**
 * BurstGPT's CSV: Timestamp in s, Model, Request tokens, Response tokens, Total tokens, Log Type. Newer files have two
 * more columns after the first: Session ID and Elapsed time, in s until the whole answer was there. A failed request
 * has 0 response tokens.
 */
import { cells, type FormatReader, secondsIn, tokensIn } from './format.ts';

const FIRST = 'Timestamp';
const ELAPSED = 'Elapsed time';
const MIDDLE = ['Session ID', ELAPSED];
const REST = ['Model', 'Request tokens', 'Response tokens', 'Total tokens', 'Log Type'];
const OLD = [FIRST, ...REST];
const NEW = [FIRST, ...MIDDLE, ...REST];

export const burstgpt: FormatReader = {
  name: 'burstgpt',
  traceBlockSize: 16,
  unit: 'line',
  parse(text) {
    if (/^"?timestamp\b/i.test(text)) return [];
    const row = cells(text, text.split(',').length === OLD.length ? OLD : NEW);
    if ('bad' in row) return { bad: row.bad! };
    const seconds = secondsIn(row[FIRST]!, FIRST);
    if (typeof seconds === 'object') return seconds;
    const elapsed = row[ELAPSED] ? secondsIn(row[ELAPSED], ELAPSED) : undefined;
    if (typeof elapsed === 'object') return elapsed;
    const inputTokens = tokensIn(row['Request tokens'], 'Request tokens');
    if (typeof inputTokens === 'object') return inputTokens;
    const outputTokens = tokensIn(row['Response tokens'], 'Response tokens');
    if (typeof outputTokens === 'object') return outputTokens;
    const session = row['Session ID'];
    return [
      {
        timeMs: 1000 * seconds,
        answeredMs: elapsed === undefined ? null : 1000 * elapsed,
        inputTokens,
        outputTokens,
        hashIds: null,
        origin: session ? { kind: 'session', id: session, delayMs: null } : { kind: 'unsaid' },
      },
    ];
  },
};
