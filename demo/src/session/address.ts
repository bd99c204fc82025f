/** The page's address as it changes without a load. */

/** Of the hash as it is then, by what is so then. */
export type HashChange = (hash: string) => string;

const AGAIN_MS = 1000;

/** Refused, and tried again. */
const waiting = new Set<HashChange>();

/** This page's with another hash; '': without one. All of it: a path that begins with two slashes would name another host. */
export const addressWith = (hash: string): string => `${location.href.split('#', 1)[0]}${hash}`;

/**
 * Now, or as soon as the browser takes it: of a slider that is dragged Safari refuses what comes after 100 changes in ten
 * seconds. Callers give the same function each time.
 */
export function changeHash(change: HashChange): void {
  try {
    history.replaceState(null, '', addressWith(change(location.hash)));
  } catch {
    if (waiting.has(change)) return;
    waiting.add(change);
    setTimeout(() => {
      waiting.delete(change);
      changeHash(change);
    }, AGAIN_MS);
  }
}
