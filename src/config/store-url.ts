/** Where a store's server is: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, `rediss://` over TLS, valkey's spelling too. */

const SCHEMES = new Set(['redis:', 'rediss:', 'valkey:', 'valkeys:']);

/** Whether it is one, right or wrong, and not a path. */
export const isStoreUrl = (text: string): boolean => /^[a-z][a-z+.-]+:\/\//i.test(text);

/** What is wrong with it, as the end of 'the URL …'; null: nothing. Shows nobody its password. */
export function wrongInStoreUrl(text: string): string | null {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url) return 'is no URL';
  if (!SCHEMES.has(url.protocol)) return `begins with ${url.protocol}//`;
  if (url.hostname === '') return 'names no host';
  const { pathname, search, hash } = url;
  // With an @ in it, it may be the rest of a password that has a /, ? or #.
  const shown = (part: string): string => (`${pathname}${search}${hash}`.includes('@') ? '…' : part);
  if (!/^\/?$|^\/\d{1,4}$/.test(pathname)) return `has ${shown(pathname)} for a number of a database`;
  if (search !== '' || hash !== '') return `has ${shown(search + hash)} at its end`;
  return decodes(url.username) && decodes(url.password) ? null : 'has a % that begins no escape';
}

function decodes(text: string): boolean {
  try {
    return decodeURIComponent(text) !== null;
  } catch {
    return false;
  }
}

/** As its client reads it. */
export const redisUrl = (text: string): string => text.replace(/^valkey(s?):/, 'redis$1:');

/** For messages and reports. */
export const withoutPassword = (text: string): string => text.replace(/^([^:/]*:(?:\/\/)?)?.*@/s, '$1');
