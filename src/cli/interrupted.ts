/** For work that only has a result at its end: after an interrupt, tells the user what is lost. */
import { orAborted } from '../router/or-aborted.ts';
import type { CommandContext } from './deps.ts';
import { WIDTH, wrap } from './output/format.ts';

/** Abort reason: the user interrupted the command. Not used when the output's reader has gone, who would not see a message. */
export class Interrupted extends Error {}

/** Yields the values until the signal aborts, then throws its reason, even if the next value never comes. */
export async function* unlessAborted<T>(values: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  const iterator = values[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await orAborted(signal, iterator.next());
      if (next.done) return;
      yield next.value;
    }
  } finally {
    // Not awaited: a generator returns only once its next value has come.
    void iterator.return?.().catch(() => {});
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
