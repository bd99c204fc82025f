/** Settles as `done` does, or rejects with the signal's reason once that aborts. */
export async function orAborted(signal: AbortSignal | undefined, done: Promise<unknown>): Promise<void> {
  if (!signal) {
    await done;
    return;
  }
  signal.throwIfAborted();
  const over = new AbortController();
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { signal: over.signal });
  });
  await Promise.race([done, aborted]).finally(() => over.abort());
}
