/** Checks, before any port opens, that every port reachable from other machines has the keys it needs. */
import { lookup } from 'node:dns/promises';
import { BlockList } from 'node:net';
import { ConfigError } from '../../errors.ts';

export interface AccessOptions {
  host: string;
  adminHost: string;
  apiKey: string | null;
  adminKey: string | null;
  adminOnClientPorts: boolean;
}

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/** A name is local if all its addresses are loopback. A name without addresses is not; listening on it reports the error. */
async function isLocal(host: string): Promise<boolean> {
  const addresses = await lookup(host, { all: true }).catch(() => []);
  return (
    addresses.length > 0 &&
    addresses.every(({ address, family }) => loopback.check(address, family === 6 ? 'ipv6' : 'ipv4'))
  );
}

/** Resolves to whether only this machine can reach the client ports. Throws ConfigError; its message contains no key. */
export async function checkAccess(options: AccessOptions): Promise<boolean> {
  const { host, adminHost, apiKey, adminKey, adminOnClientPorts } = options;
  checkHost('--host', host);
  checkHost('--admin-host', adminHost);
  checkKey('--api-key', apiKey);
  checkKey('--admin-key', adminKey);
  if (apiKey !== null && apiKey === adminKey) {
    throw new ConfigError(
      '--api-key and --admin-key are the same, so every client would be an operator: give two different keys',
    );
  }
  const [local, adminLocal] = await Promise.all([isLocal(host), isLocal(adminHost)]);
  if (!local && apiKey === null) {
    throw new ConfigError(
      `--host ${host} is reachable from other machines, and there is no key: give --api-key (or KVFERRY_API_KEY), or --host 127.0.0.1`,
    );
  }
  const open = !adminLocal
    ? `--admin-host ${adminHost}`
    : adminOnClientPorts && !local
      ? `--host ${host}`
      : null;
  if (open !== null && adminKey === null) {
    throw new ConfigError(
      `${open} is reachable from other machines, and there is no key for the operator's paths there: give --admin-key (or KVFERRY_ADMIN_KEY)`,
    );
  }
  return local;
}

/** An IPv6 address has brackets in a URL only. */
function checkHost(option: string, host: string): void {
  const [, address] = /^\[(.*)\]$/.exec(host) ?? [];
  if (address !== undefined)
    throw new ConfigError(`${option} is ${host}: wanted an address without brackets; give ${address}`);
}

function checkKey(option: string, key: string | null): void {
  if (key !== null && !/^[\x21-\x7e]+$/.test(key)) {
    throw new ConfigError(
      `${option} has characters that an HTTP header cannot carry: wanted printable ASCII without spaces`,
    );
  }
}
