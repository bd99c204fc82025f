/**
 * Merges several answers into one sequence, in the order in which their pieces arrive. Pieces are read immediately even if the
 * consumer is slow, so that their logits (a whole vocabulary per token) can be freed. The waiting pieces are small, and their
 * number is bounded by max_tokens.
 */
import { setImmediate as letOthers } from 'node:timers/promises';

/**
 * `begin` starts the answer of an index. Between two starts the event loop runs, because tokenising a prompt may take
 * milliseconds. If an answer fails, `endAll` is called to end all of them; the error is thrown after the pieces before it.
 */
export async function* mergeStreams<T>(
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
    if (!ended) endAll(new Error('the answers are no longer read'));
    await reading;
  }
}
