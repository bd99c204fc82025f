/**
 * Several answers at once in one sequence, as their pieces come. They are read at once, whoever is slow to take them, so that
 * what they are made of (the logits of a whole vocabulary a token) is let go; what waits is small, and bounded by max_tokens.
 */
import { setImmediate as letOthers } from 'node:timers/promises';

/**
 * `begin`: starts the answer of this index; the next is started after others had their turn, since a prompt may take
 * milliseconds. What one throws ends all of them by `endAll`, and is thrown when what came before it was taken.
 */
export async function* merged<T>(
  count: number,
  begin: (index: number) => AsyncIterable<T>,
  endAll: (reason: unknown) => void,
): AsyncGenerator<T, void> {
  const ready: T[] = [];
  let left = count;
  let failure: { reason: unknown } | null = null;
  let wake = (): void => {};
  const read = async (index: number): Promise<void> => {
    try {
      for await (const item of begin(index)) {
        ready.push(item);
        wake();
      }
    } catch (reason) {
      if (!failure) endAll(reason);
      failure ??= { reason };
    }
    left--;
    wake();
  };
  const reading = (async () => {
    const all: Promise<void>[] = [];
    for (let index = 0; index < count && !failure; index++) {
      if (index > 0) await letOthers();
      all.push(read(index));
    }
    await Promise.all(all);
  })();
  let ended = false;
  try {
    for (;;) {
      const item = ready.shift();
      if (item !== undefined) yield item;
      else if (failure) throw (failure as { reason: unknown }).reason;
      else if (left === 0) {
        ended = true;
        return;
      } else {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    }
  } finally {
    if (!ended) endAll(new Error('nobody reads the answers any more'));
    await reading;
  }
}
