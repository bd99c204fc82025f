/**
 * Scales the lengths and times of a trace. The ends of prompts and answers are scaled, so that later prompts still fit.
 */
import { ConfigError } from '../../errors.ts';
import type { DrawnArrivals, TraceScale } from './types.ts';

/** Throws ConfigError if a hash id would stand for part of a token. */
export function checkScale({ traceBlockSize, lengthDivisor, speedUp }: TraceScale): void {
  if (!(lengthDivisor >= 1) || traceBlockSize % lengthDivisor !== 0)
    throw new ConfigError(
      `a trace block of ${traceBlockSize} tokens divided by ${lengthDivisor} is not a whole number of tokens: choose a --trace-block-size that is a multiple of it`,
    );
  if (!(speedUp > 0))
    throw new ConfigError(`a trace cannot be ${speedUp} times as fast: wanted a number above 0`);
}

/**
 * What engines with such blocks divide a trace's lengths by if no scale is given, so that a trace block is one of theirs;
 * null: no whole number does that.
 */
export function divisorForBlocks(traceBlockSize: number, blockSize: number): number | null {
  if (traceBlockSize <= blockSize) return 1;
  return traceBlockSize % blockSize === 0 ? traceBlockSize / blockSize : null;
}

/** Tokens that a hash id stands for after scaling. */
export const scaledBlock = ({ traceBlockSize, lengthDivisor }: TraceScale): number =>
  traceBlockSize / lengthDivisor;

/**
 * A prompt that contains another's prompt and answer still does after scaling: both end at their scaled ends. Sums over
 * many requests are the trace's, divided.
 */
export function scaledLengths(
  { inputTokens, outputTokens }: { inputTokens: number; outputTokens: number },
  { lengthDivisor }: TraceScale,
): { inputTokens: number; outputTokens: number } {
  const input = Math.ceil(inputTokens / lengthDivisor);
  const end = Math.ceil((inputTokens + outputTokens) / lengthDivisor);
  return { inputTokens: Math.max(1, input), outputTokens: Math.max(1, end - input) };
}

/** Scale, arrivals and cut in words, for reports. `drawn`: null if the trace has times of its own. */
export function describeScale(scale: TraceScale, drawn: DrawnArrivals | null, limit: number | null): string {
  const cut = limit === null ? '' : ` The trace is cut after request ${limit}.`;
  return `${describeRates(scale, drawn)}${cut}`;
}

function describeRates(
  { traceBlockSize, lengthDivisor, speedUp }: TraceScale,
  drawn: DrawnArrivals | null,
): string {
  if (lengthDivisor === 1 && speedUp === 1 && !drawn) return 'Lengths and arrivals are as in the trace.';
  const lengths =
    lengthDivisor === 1
      ? 'Lengths are as in the trace'
      : `Every length is 1/${lengthDivisor} of the trace's: a block of ${traceBlockSize} tokens is one of ${traceBlockSize / lengthDivisor}`;
  const rate = drawn
    ? describeDrawn(drawn, speedUp)
    : speedUp === 1
      ? 'arrivals are as in the trace'
      : speedUp > 1
        ? `arrivals come ${speedUp} times as fast`
        : `arrivals come at ${speedUp} of the trace's rate`;
  return `${lengths}; ${rate}.`;
}

function describeDrawn({ perSecond, thinkMs }: DrawnArrivals, speedUp: number): string {
  const rate = Number((perSecond * speedUp).toPrecision(4));
  const think = Number((thinkMs / speedUp / 1000).toPrecision(4));
  const begin = rate === 1 ? 'conversation begins' : 'conversations begin';
  return `it has no times, so ${rate} ${begin} per second, with exponential gaps, and each next turn comes ${think === 0 ? 'right' : `${think} s`} after an answer`;
}
