/** A port for every engine, by its seat's name: opened when one joins the fleet, closed when it has left. */
import type { EngineCluster } from '../fleet/cluster.ts';
import type { EngineRole } from '../router/engine-client.ts';
import type { ServerLog } from './log.ts';
import { enginePorts, type Ports } from './ports.ts';

/** An open port of an engine. */
export interface EnginePort {
  url: string;
  close(): Promise<void>;
}

type Open = (name: string, port: number) => Promise<EnginePort>;

export class EnginePorts {
  readonly #open: Open;
  readonly #ports: Ports;
  readonly #log: ServerLog;
  readonly #byName = new Map<string, EnginePort>();
  /** Ports that are being opened or closed. */
  #last: Promise<unknown> = Promise.resolve();
  #stop = () => {};

  private constructor(open: Open, ports: Ports, log: ServerLog) {
    this.#open = open;
    this.#ports = ports;
    this.#log = log;
  }

  /** Follows the cluster until close(). Throws ConfigError. */
  static async start(cluster: EngineCluster, open: Open, ports: Ports, log: ServerLog): Promise<EnginePorts> {
    const all = new EnginePorts(open, ports, log);
    const engines = cluster.engines.map(({ name, role }) => ({ name, role }));
    const numbers = enginePorts(engines, ports);
    for (const [i, { name }] of engines.entries()) all.#byName.set(name, await open(name, numbers[i]!));
    all.#stop = cluster.onNotice((notice) => {
      if (notice.kind === 'joined') all.#inTurn(() => all.#joined(notice.name, notice.role));
      else if (notice.kind === 'left') all.#inTurn(() => all.#left(notice.name));
    });
    return all;
  }

  /** By name. */
  get urls(): Readonly<Record<string, string>> {
    return Object.fromEntries([...this.#byName].map(([name, { url }]) => [name, url]));
  }

  /** Resolves when every engine that is there now has its port. */
  async settled(): Promise<void> {
    await this.#last;
  }

  close(): void {
    this.#stop();
  }

  /** The port that follows the first one, if it is free; else any. */
  async #joined(name: string, role: EngineRole): Promise<void> {
    const [first = 0, ...others] = this.#ports[role];
    const wanted = first === 0 || others.length > 0 ? 0 : first + Number(/\d+$/.exec(name)?.[0] ?? 0);
    const port = await this.#open(name, wanted).catch(() => this.#open(name, 0));
    this.#byName.set(name, port);
    this.#log.note(`${name} listens on ${port.url}`);
  }

  async #left(name: string): Promise<void> {
    const port = this.#byName.get(name);
    this.#byName.delete(name);
    await port?.close();
  }

  #inTurn(change: () => Promise<void>): void {
    this.#last = this.#last.then(change).catch((error: Error) => this.#log.error(error.message));
  }
}
