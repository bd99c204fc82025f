/** Assigns ports to engines, and checks that all ports can be opened before any engine is started. */
import { createServer } from 'node:net';
import { ConfigError } from '../../errors.ts';
import type { EngineRole } from '../../router/engine-client.ts';
import { type AccessOptions, checkAccess } from './access.ts';

/** 0: any free port. For each role: one port per engine, or the first engine's port, which the others count up from. */
export interface Ports {
  prefill: readonly number[];
  decode: readonly number[];
  router: number;
  /** The operator's port. */
  admin: number;
}

interface Named {
  name: string;
  role: EngineRole;
}

/** One port per engine, in the engines' order. Combined engines use D's ports. Throws ConfigError. */
export function enginePorts(engines: readonly Named[], ports: Pick<Ports, EngineRole>): number[] {
  const next = { prefill: 0, decode: 0 };
  return engines.map(({ role }) => {
    const given = ports[role];
    const count = engines.filter((other) => other.role === role).length;
    const [first = 0] = given;
    const index = next[role]++;
    if (given.length === count) return given[index]!;
    if (given.length === 1) return first === 0 ? 0 : first + index;
    const what = role === 'prefill' ? 'P' : 'D';
    throw new ConfigError(
      `--${role}-port has ${given.length} ports for ${count} ${what}: give ${count}, or one from which the others count up`,
    );
  });
}

/** Throws ConfigError if a port cannot be opened, or is reachable from other machines without a key. Leaves no port open. */
export async function checkServer(
  options: { ports: Ports } & AccessOptions,
  engines: readonly Named[],
): Promise<void> {
  const { host, adminHost, ports } = options;
  await checkAccess(options);
  const ofEngines = enginePorts(engines, ports).map((port, i) => ({
    name: engines[i]!.name,
    port,
    on: host,
  }));
  const others = [
    { name: 'router', port: ports.router, on: host },
    { name: 'admin', port: ports.admin, on: adminHost },
  ];
  const wanted = [...ofEngines, ...others].filter(({ port }) => port !== 0);
  checkPorts(wanted);
  for (const { port, on } of wanted)
    await new Promise<void>((resolve, reject) => {
      const probe = createServer();
      probe.once('error', (error: NodeJS.ErrnoException) => reject(cannotListen(on, port, error)));
      probe.listen(port, on, () => probe.close(() => resolve()));
    });
}

/** Throws ConfigError for a port that two share, or above the highest. */
export function checkPorts(wanted: readonly { name: string; port: number }[]): void {
  for (const [i, { name, port }] of wanted.entries()) {
    if (port > 65535)
      throw new ConfigError(
        `${name} would get port ${port}, above the highest, 65535: give a lower first port`,
      );
    const other = wanted.slice(i + 1).find((another) => another.port === port);
    if (other)
      throw new ConfigError(
        `port ${port} is given to both ${name} and ${other.name}: give each its own port`,
      );
  }
}

const OTHER_HOST = 'give another --host, or --admin-host for the admin port';
const REASONS: Record<string, string> = {
  EADDRINUSE: 'another program uses that port; give another port, or end that program',
  EADDRNOTAVAIL: `no interface of this machine has that address; ${OTHER_HOST}`,
  ENOTFOUND: `no host has that name; ${OTHER_HOST}`,
};

export function cannotListen(host: string, port: number, error: NodeJS.ErrnoException): ConfigError {
  const denied = error.code === 'EACCES' ? deniedPort(port) : undefined;
  const reason = denied ?? REASONS[error.code ?? ''] ?? error.message;
  return new ConfigError(`cannot listen on ${host}:${port}: ${reason}`, { cause: error });
}

/** Windows reserves ranges of high ports, mostly for virtual machines. */
const deniedPort = (port: number): string =>
  port > 1023
    ? 'permission denied; the system may have reserved that port: give another port'
    : 'permission denied; give a port above 1023';
