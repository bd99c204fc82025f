/**
 * A turn whose engines or transfers fail goes another way. Tokens do not depend on the way, so what was given out before
 * a failure stands, and the next way goes on after it.
 */
import { InternalError, invariant, KvferryError, RefusedError, RequestError } from '../errors.ts';
import type { TimedOutput } from './output-stream.ts';

/**
 * Outputs of the first way; after a failed engine or transfer, those of the next, without what was already given.
 * `next` returns null when there is no way left: then the failure is thrown. After one, an engine that refuses the request is
 * too small for it: the next is asked, and when none is left the failure is thrown that began it. `began`: one before the first way.
 */
export async function* withFailover(
  first: AsyncIterable<TimedOutput>,
  next: () => AsyncIterable<TimedOutput> | null,
  began: Error | null = null,
): AsyncGenerator<TimedOutput> {
  const given: number[] = [];
  let outputs = first;
  let failed = began;
  for (;;) {
    try {
      yield* continued(outputs, given);
      return;
    } catch (error) {
      const tooSmall = failed !== null && error instanceof RequestError;
      if (!tooSmall && !canGoOn(error)) throw error;
      const other = next();
      if (!other) throw tooSmall ? failed : error;
      if (!tooSmall) failed ??= error as Error;
      outputs = other;
    }
  }
}

/** Outputs of the first way; those of the other where the first is refused KV, and `mayTake` says that nothing came of it yet. */
export async function* orWhenRefused(
  first: AsyncIterable<TimedOutput>,
  mayTake: () => boolean,
  other: () => AsyncIterable<TimedOutput>,
): AsyncGenerator<TimedOutput> {
  try {
    yield* first;
    return;
  } catch (error) {
    if (!(error instanceof RefusedError && mayTake())) throw error;
  }
  yield* other();
}

async function* continued(outputs: AsyncIterable<TimedOutput>, given: number[]): AsyncGenerator<TimedOutput> {
  let index = 0;
  for await (const { output, atMs } of outputs) {
    const fresh = output.tokens.filter(({ tokenId }) => {
      const at = index++;
      if (at < given.length) {
        invariant(
          given[at] === tokenId,
          () => `${output.requestId} gave token ${tokenId} at ${at}, another engine ${given[at]}`,
        );
        return false;
      }
      given.push(tokenId);
      return true;
    });
    if (fresh.length > 0 || output.finish) yield { output: { ...output, tokens: fresh }, atMs };
  }
}

/** Another way may work: an engine ended, or KV did not arrive. A request that the first engine does not take is taken nowhere. */
function canGoOn(error: unknown): error is Error {
  if (!(error instanceof KvferryError) || error instanceof InternalError) return false;
  return error.code === 'engine_dead' || error.code === 'transfer' || error.code === 'refused';
}
