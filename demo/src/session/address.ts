/** Changes of the page's address without a reload. */

/** Returns the new hash for the current one. Called when the change is made, which may be later. */
export type HashChange = (hash: string) => string;

const AGAIN_MS = 1000;

/** Changes that the browser refused, to be tried again. */
const waiting = new Set<HashChange>();

/** This page's full address with another hash ('': none). A path alone is not enough: if it begins with '//', it names a host. */
export const addressWith = (hash: string): string => `${location.href.split('#', 1)[0]}${hash}`;

/**
 * Changes the hash now, or as soon as the browser allows it: Safari refuses more than 100 changes in ten seconds, as from a
 * dragged slider. Callers must pass the same function each time.
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
