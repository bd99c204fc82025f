/** Which engine listens on which port, and whether all of them can be had: before any engine is started. */
import { createServer } from 'node:net';
import { ConfigError } from '../errors.ts';
import type { EngineRole } from '../router/engine-client.ts';
import { type AccessOptions, checkAccess } from './access.ts';

/** Each 0: any free one. Of engines: one for each, or the first one's, which the next ones' follow. */
export interface Ports {
  prefill: readonly number[];
  decode: readonly number[];
  router: number;
  /** The operator's. */
  admin: number;
}

interface Named {
  name: string;
  role: EngineRole;
}

/** One for each engine, in their order; those that do both are listed with D. Throws ConfigError. */
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
      `--${role}-port names ${given.length} ports for ${count} ${what}: give ${count}, or one that the others follow`,
    );
  });
}

/** Throws ConfigError when a port cannot be listened on, or is reached by others without a key; nothing is left open then. */
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
  for (const [i, { name, port, on }] of wanted.entries()) {
    if (port > 65535)
      throw new ConfigError(`${name} would get port ${port}, and there are 65535: give a lower first one`);
    const other = wanted.slice(i + 1).find((another) => another.port === port);
    if (other)
      throw new ConfigError(`port ${port} is given to both ${name} and ${other.name}: give each its own`);
    await new Promise<void>((resolve, reject) => {
      const probe = createServer();
      probe.once('error', (error: NodeJS.ErrnoException) => reject(cannotListen(on, port, error)));
      probe.listen(port, on, () => probe.close(() => resolve()));
    });
  }
}

const REASONS: Record<string, string> = {
  EADDRINUSE: 'something else listens there; give another port, or end that program',
  EACCES: 'permission denied; give a port above 1023',
  EADDRNOTAVAIL: 'no interface of this machine has that address; give another --host',
  ENOTFOUND: 'there is no host of that name; give another --host',
};

export function cannotListen(host: string, port: number, error: NodeJS.ErrnoException): ConfigError {
  return new ConfigError(`cannot listen on ${host}:${port}: ${REASONS[error.code ?? ''] ?? error.message}`, {
    cause: error,
  });
}
