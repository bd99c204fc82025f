/** The page's address as it changes without a load. */

/** This page's with another hash; '': without one. All of it: a path that begins with two slashes would name another host. */
export const addressWith = (hash: string): string => `${location.href.split('#', 1)[0]}${hash}`;
