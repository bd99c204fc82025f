/**
 * Rejects requests by their Host and Origin headers. A malicious web page can make its reader's browser send requests here:
 * through a name that it points at this machine (DNS rebinding; Host shows it), or from the page itself (Origin shows it).
 */
import { isIP } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import type { MiddlewareHandler } from 'hono';
import { HttpError } from './http-error.ts';

export interface HostRules {
  /** Names accepted in Host; '*': any. localhost and IP addresses are always accepted: nobody can point them elsewhere. */
  hosts: readonly string[];
  /** Origins whose pages may send requests, in addition to the port's own; '*': any. */
  origins: readonly string[];
}

/** Names and addresses by which a server that listens on `host` can be reached. */
export function ownNames(host: string): string[] {
  const addresses = Object.values(networkInterfaces()).flatMap((all) => all?.map(({ address }) => address));
  return [host, 'localhost', hostname(), ...addresses.filter((address) => address !== undefined)];
}

/** In lower case, without port, brackets and trailing dot. An IPv6 address without brackets has no port. */
export const bare = (host: string): string =>
  unbracketed(isIP(host) === 6 ? host : host.replace(/:\d*$/, ''));

const unbracketed = (host: string): string =>
  host
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '')
    .toLowerCase();

const loopback = /^(localhost|127(\.\d{1,3}){3}|::1)$/;

/** Whether the name is a loopback name or one of `hosts`; '*' in `hosts`: any name. */
export function isOwnName(host: string, hosts: readonly string[]): boolean {
  const name = unbracketed(host);
  return loopback.test(name) || hosts.some((own) => own === '*' || unbracketed(own) === name);
}

const READS = new Set(['GET', 'HEAD', 'OPTIONS']);

/** Middleware that throws HttpError 403. Requests that only read are not checked for their Origin. */
export function checkHostAndOrigin({ hosts, origins }: HostRules): MiddlewareHandler {
  const names = new Set(['localhost', ...hosts.map(bare)]);
  return async (c, next) => {
    const host = c.req.header('Host') ?? new URL(c.req.url).host;
    const name = bare(host);
    if (isIP(name) === 0 && !names.has(name) && !names.has('*')) {
      throw new HttpError(
        403,
        `the header Host is '${name}', which is not a name of this server: use its IP address, or start it with --allowed-hosts ${name}`,
      );
    }
    const origin = c.req.header('Origin');
    if (origin === undefined || READS.has(c.req.method)) return next();
    const own = URL.canParse(origin) && new URL(origin).host === host.toLowerCase();
    if (own || origins.includes(origin) || origins.includes('*')) return next();
    throw new HttpError(
      403,
      `pages from ${origin} may not send requests here: to allow them, start the server with --cors-origin ${origin}`,
    );
  };
}
