/** The page's address as it changes without a load. */

/** Of the hash as it is then, by what is so then. */
export type HashChange = (hash: string) => string;

/**
 * Browsers take 100 (Safari) or 200 changes in ten seconds, and refuse or drop the others; a slider that is dragged makes
 * more. So many are made at once, then one each time.
 */
const AT_ONCE = 50;
const EACH_MS = 250;

/** When none of those made counts any more. */
let restedMs = 0;
/** Each is made once, however often it was wanted meanwhile. */
const waiting = new Set<HashChange>();

/** This page's with another hash; '': without one. All of it: a path that begins with two slashes would name another host. */
export const addressWith = (hash: string): string => `${location.href.split('#', 1)[0]}${hash}`;

/** Now, or a little later where there were many: callers give the same function each time. */
export function changeHash(change: HashChange): void {
  const now = performance.now();
  const waitMs = restedMs - now - (AT_ONCE - 1) * EACH_MS;
  if (waitMs > 0) {
    if (waiting.size === 0) setTimeout(changeWaiting, waitMs);
    waiting.add(change);
    return;
  }
  restedMs = Math.max(restedMs, now) + EACH_MS;
  history.replaceState(null, '', addressWith(change(location.hash)));
}

function changeWaiting(): void {
  const changes = [...waiting];
  waiting.clear();
  for (const change of changes) changeHash(change);
}
