/**
 * Whom a port answers at all. A page of a stranger can make its reader's browser ask here: under a name that the stranger
 * pointed at this machine (the Host tells), or from the page itself (the Origin tells).
 */
import { isIP } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import type { MiddlewareHandler } from 'hono';
import { HttpError } from './http-error.ts';

export interface Door {
  /** Names that the port is asked under, beside localhost and addresses, which nobody can point elsewhere; '*': any. */
  hosts: readonly string[];
  /** Whose pages may ask, beside its own; '*': any. */
  origins: readonly string[];
}

/** The names of this machine that `host`, which is listened on, stands for. */
export function ownNames(host: string): string[] {
  const addresses = Object.values(networkInterfaces()).flatMap((all) => all?.map(({ address }) => address));
  return [host, 'localhost', hostname(), ...addresses.filter((address) => address !== undefined)];
}

/** Without port, brackets and the root's dot. */
export const bare = (host: string): string => unbracketed(host.replace(/:\d*$/, ''));

const unbracketed = (host: string): string =>
  host
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '')
    .toLowerCase();

const loopback = /^(localhost|127(\.\d{1,3}){3}|::1)$/;

/** Whether the name is loopback's or one of `hosts`, where '*' is any. */
export function isOwnName(host: string, hosts: readonly string[]): boolean {
  const name = unbracketed(host);
  return loopback.test(name) || hosts.some((own) => own === '*' || unbracketed(own) === name);
}

const READS = new Set(['GET', 'HEAD', 'OPTIONS']);

/** Throws HttpError 403. */
export function checkDoor({ hosts, origins }: Door): MiddlewareHandler {
  const names = new Set(['localhost', ...hosts.map(bare)]);
  return async (c, next) => {
    const host = c.req.header('Host') ?? new URL(c.req.url).host;
    const name = bare(host);
    if (isIP(name) === 0 && !names.has(name) && !names.has('*')) {
      throw new HttpError(
        403,
        `the header Host says '${name}', which is no name of this server: ask an address of it, or start it with --allowed-hosts ${name}`,
      );
    }
    const origin = c.req.header('Origin');
    if (origin === undefined || READS.has(c.req.method)) return next();
    const own = URL.canParse(origin) && new URL(origin).host === host.toLowerCase();
    if (own || origins.includes(origin) || origins.includes('*')) return next();
    throw new HttpError(
      403,
      `pages of ${origin} may not ask here: start the server with --cors-origin ${origin} if they should`,
    );
  };
}
