/** Turns errors of a Redis server or its client into readable messages. */
import { ErrorReply } from '@redis/client';
import { ConfigError, messageOf, TransferError } from '../../errors.ts';

/** Most characters; longer lines are cut. */
const MOST_SAID = 160;

/** One printable, short line. The URL's password, which some servers repeat, is replaced. */
export function serverMessage(text: string, url: string): string {
  const { password } = new URL(url);
  let line = text;
  for (const secret of [decodeURIComponent(password), password])
    if (secret !== '') line = line.replaceAll(secret, '…');
  const printable = line
    // The reply to an unknown command repeats its arguments, perhaps cut short.
    .replace(/,? with args beginning with.*/s, '')
    .replace(/[\p{C}\p{Z}]+/gu, ' ')
    .trim();
  const letters = [...printable];
  return letters.length > MOST_SAID ? `${letters.slice(0, MOST_SAID).join('')}…` : printable;
}

/**
 * A ConfigError if retrying cannot help and the user must act, else a TransferError. `location`: the URL without its
 * password.
 */
export function usable(error: Error & { code?: string }, url: string, location: string): Error {
  const said = serverMessage(messageOf(error), url);
  if (error.code === 'ENOTFOUND')
    return new ConfigError(`the host of the store's server ${location} does not exist: ${said}`);
  if (error instanceof ErrorReply && /^(WRONGPASS|NOAUTH|NOPERM|ERR (invalid|DB|AUTH))/.test(error.message))
    return new ConfigError(`the store's server ${location} refuses the connection: ${said}`);
  return new TransferError(said);
}
