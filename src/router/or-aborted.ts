/** Settles as `done` does, or rejects with the signal's reason once that aborts. */
export async function orAborted<T>(signal: AbortSignal | undefined, done: Promise<T>): Promise<T> {
  if (!signal) return await done;
  if (signal.aborted) {
    // Nobody hears how it ends.
    done.catch(() => {});
    throw signal.reason;
  }
  const over = new AbortController();
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { signal: over.signal });
  });
  return await Promise.race([done, aborted]).finally(() => over.abort());
}
