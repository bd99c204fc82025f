/** What a server, or its client, says of a failure, as people may read it. */
import { ErrorReply } from '@redis/client';
import { ConfigError, messageOf, TransferError } from '../../errors.ts';

/** Longer lines are cut. */
const MOST_SAID = 160;

/** A line: printable, short, and without the URL's password, which some servers repeat. */
export function saidByServer(text: string, url: string): string {
  const { password } = new URL(url);
  let line = text;
  for (const secret of [decodeURIComponent(password), password])
    if (secret !== '') line = line.replaceAll(secret, '…');
  const printable = line
    // A command that is unknown there comes back with what was sent, perhaps cut short.
    .replace(/,? with args beginning with.*/s, '')
    .replace(/[\p{C}\p{Z}]+/gu, ' ')
    .trim();
  const letters = [...printable];
  return letters.length > MOST_SAID ? `${letters.slice(0, MOST_SAID).join('')}…` : printable;
}

/** ConfigError for what waiting will not mend: it is the user's to mend. `location`: the URL without a password. */
export function usable(error: Error & { code?: string }, url: string, location: string): Error {
  const said = saidByServer(messageOf(error), url);
  if (error.code === 'ENOTFOUND')
    return new ConfigError(`there is no host for the store's server ${location}: ${said}`);
  if (error instanceof ErrorReply && /^(WRONGPASS|NOAUTH|NOPERM|ERR (invalid|DB|AUTH))/.test(error.message))
    return new ConfigError(`the store's server ${location} refuses the connection: ${said}`);
  return new TransferError(said);
}
