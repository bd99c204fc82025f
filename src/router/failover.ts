/**
 * Serves a turn on other engines after an engine or a transfer has failed. Tokens do not depend on which engines
 * serve, so tokens already given out stay valid, and the next attempt continues after them.
 */
import { InternalError, invariant, KvferryError, RefusedError, RequestError } from '../errors.ts';
import type { TimedOutput } from './output-stream.ts';

/**
 * Yields the first attempt's outputs and, after a failed engine or transfer, those of the next attempt without the
 * tokens already given. `next` returns null if no attempt is left; the failure is then thrown. An engine that refuses
 * the request during a failover is too small for it: the next is asked, and if none is left, the original failure is
 * thrown. `initialFailure`: a failure that happened before the first attempt, or null.
 */
export async function* withFailover(
  first: AsyncIterable<TimedOutput>,
  next: () => AsyncIterable<TimedOutput> | null,
  initialFailure: Error | null = null,
): AsyncGenerator<TimedOutput> {
  const yielded: number[] = [];
  let outputs = first;
  let failed = initialFailure;
  for (;;) {
    try {
      yield* withoutRepeats(outputs, yielded);
      return;
    } catch (error) {
      const tooSmall = failed !== null && error instanceof RequestError;
      if (!tooSmall && !canRetry(error)) throw error;
      const other = next();
      if (!other) throw tooSmall ? failed : error;
      if (!tooSmall) failed ??= error as Error;
      outputs = other;
    }
  }
}

/** Yields `first`. If it is refused KV and `mayRetry` says so, yields `other` instead. */
export async function* orWhenRefused(
  first: AsyncIterable<TimedOutput>,
  mayRetry: (refusal: RefusedError) => boolean,
  other: () => AsyncIterable<TimedOutput>,
): AsyncGenerator<TimedOutput> {
  try {
    yield* first;
    return;
  } catch (error) {
    if (!(error instanceof RefusedError && mayRetry(error))) throw error;
  }
  yield* other();
}

async function* withoutRepeats(
  outputs: AsyncIterable<TimedOutput>,
  yielded: number[],
): AsyncGenerator<TimedOutput> {
  let index = 0;
  for await (const { output, atMs } of outputs) {
    const fresh = output.tokens.filter(({ tokenId }) => {
      const at = index++;
      if (at < yielded.length) {
        invariant(
          yielded[at] === tokenId,
          () => `${output.requestId} gave token ${tokenId} at ${at}, another engine ${yielded[at]}`,
        );
        return false;
      }
      yielded.push(tokenId);
      return true;
    });
    if (fresh.length > 0 || output.finish) yield { output: { ...output, tokens: fresh }, atMs };
  }
}

/**
 * Whether another attempt may work: an engine ended, or KV did not arrive. If the first engine rejects the request
 * itself, no other is tried.
 */
function canRetry(error: unknown): error is Error {
  if (!(error instanceof KvferryError) || error instanceof InternalError) return false;
  return error.code === 'engine_dead' || error.code === 'transfer' || error.code === 'refused';
}
