/** Returns a function that runs each change after the one before it, however that ended, and gives its result. */
export function oneAtATime(): <T>(change: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (change) => {
    const next = last.catch(() => {}).then(change);
    last = next;
    return next;
  };
}
