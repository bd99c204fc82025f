/** For work that only has a result at its end: after an interrupt, tells the user what is lost. */
import type { CommandContext } from './deps.ts';
import { WIDTH, wrap } from './output/format.ts';

/** Abort reason: the user interrupted the command. Not used when the output's reader has gone, who would not see a message. */
export class Interrupted extends Error {}

/** Yields the values until the signal aborts, then throws its reason. */
export async function* unlessAborted<T>(values: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  for await (const value of values) {
    signal.throwIfAborted();
    yield value;
  }
}

/** Settles like `work`. `lost`: the sentences to print after an interrupt. */
export async function warningOfLoss<T>(
  work: Promise<T>,
  { deps, signal }: CommandContext,
  lost: () => string,
): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (signal.reason instanceof Interrupted)
      for (const line of wrap(lost(), WIDTH)) deps.stderr.write(`${line}\n`);
    throw error;
  }
}
