/** Where a store's server is: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, `rediss://` over TLS, valkey's spelling too. */

const SCHEMES = new Set(['redis:', 'rediss:', 'valkey:', 'valkeys:']);

/** What is wrong with it, as the end of 'the URL …'; null: nothing. Shows nobody its password. */
export function wrongInStoreUrl(text: string): string | null {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url) return 'is no URL';
  if (!SCHEMES.has(url.protocol)) return `begins with ${url.protocol}//`;
  if (url.hostname === '') return 'names no host';
  if (!/^\/?$|^\/\d{1,4}$/.test(url.pathname)) return `has ${shown(url.pathname)} for a number of a database`;
  if (url.search !== '' || url.hash !== '') return `has ${shown(url.search + url.hash)} at its end`;
  return decodes(url.username) && decodes(url.password) ? null : 'has a % that begins no escape';
}

/** What stands before an @ may be the rest of a password with a /, ? or # in it. */
const shown = (part: string): string => (part.includes('@') ? '…' : part);

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
