/** Resolves when `done` is settled, at once if it is null. Rejects as it does, or with the signal's reason once that aborts. */
export async function orAborted(
  signal: AbortSignal | undefined,
  done: Promise<unknown> | null,
): Promise<void> {
  if (!signal || !done) {
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
