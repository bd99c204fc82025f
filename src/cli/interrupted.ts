/** Work whose result comes at its end only: who interrupts it is told what was done, and that nothing came of it. */
import type { CommandContext } from './deps.ts';
import { WIDTH, wrap } from './format.ts';

/** Why a command's signal was aborted: by its user, who hears of it. Whoever reads no more does not. */
export class Interrupted extends Error {}

/** The same, until the signal aborts: then it throws the signal's reason. */
export async function* unlessAborted<T>(values: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  for await (const value of values) {
    signal.throwIfAborted();
    yield value;
  }
}

/** Settles as `work` does. `lost`: what to say, in sentences. */
export async function tellingWhatIsLost<T>(
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
