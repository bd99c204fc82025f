/** URL of a store server: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, or `rediss://` for TLS; also valkey(s)://. */

const SCHEMES = new Set(['redis:', 'rediss:', 'valkey:', 'valkeys:']);

/** Whether the text is a URL, valid or not, rather than a path. */
export const isStoreUrl = (text: string): boolean => /^[a-z][a-z+.-]+:\/\//i.test(text);

/** What is wrong with the URL, to complete the sentence 'the URL …'; null if valid. Never contains the password. */
export function wrongInStoreUrl(text: string): string | null {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url) return 'is not a URL';
  if (!SCHEMES.has(url.protocol)) return `begins with ${url.protocol}//`;
  if (url.hostname === '') return 'names no host';
  const { pathname, search, hash } = url;
  // A part with an @ may be the rest of a password that contains /, ? or #.
  const shown = (part: string): string => (`${pathname}${search}${hash}`.includes('@') ? '…' : part);
  if (!/^\/?$|^\/\d{1,4}$/.test(pathname)) return `has ${shown(pathname)} as its database number`;
  if (search !== '' || hash !== '') return `has ${shown(search + hash)} at its end`;
  return decodes(url.username) && decodes(url.password) ? null : 'has a % that is not part of an escape';
}

function decodes(text: string): boolean {
  try {
    return decodeURIComponent(text) !== null;
  } catch {
    return false;
  }
}

/** In the spelling that the Redis client accepts. */
export const redisUrl = (text: string): string => text.replace(/^valkey(s?):/, 'redis$1:');

/** Without user and password, for messages and reports. */
export const withoutPassword = (text: string): string => text.replace(/^([^:/]*:(?:\/\/)?)?.*@/s, '$1');
