/** One port per engine, keyed by the engine's name (decode-0): opened when it joins the fleet, closed when it has left. */
import type { EngineCluster } from '../fleet/cluster.ts';
import type { EngineRole } from '../router/engine-client.ts';
import { numberOf } from '../router/scaling/plan.ts';
import type { ServerLog } from './http/log.ts';
import { enginePorts, type Ports } from './http/ports.ts';

/** An engine's open port. */
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
  /** The port that each name had last, also of engines that left. */
  readonly #lastNumbers = new Map<string, number>();
  /** The last of the queued openings and closings, which run one at a time. */
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
    for (const [i, { name }] of engines.entries()) all.#opened(name, await open(name, numbers[i]!));
    all.#stop = cluster.onNotice((notice) => {
      if (notice.kind === 'joined') all.#inTurn(() => all.#joined(notice.name, notice.role));
      else if (notice.kind === 'left') all.#inTurn(() => all.#left(notice.name));
    });
    return all;
  }

  /** URLs by engine name. */
  get urls(): Readonly<Record<string, string>> {
    return Object.fromEntries([...this.#byName].map(([name, { url }]) => [name, url]));
  }

  /** Resolves when every engine now in the fleet has its port. */
  async settled(): Promise<void> {
    await this.#last;
  }

  close(): void {
    this.#stop();
  }

  /** Opens the name's last port, or the role's first port plus the engine's number, if that is free, else any free port. */
  async #joined(name: string, role: EngineRole): Promise<void> {
    const [first = 0, ...others] = this.#ports[role];
    const fresh = first === 0 || others.length > 0 ? 0 : first + numberOf(name);
    const wanted = this.#lastNumbers.get(name) ?? fresh;
    const port = await this.#open(name, wanted).catch(() => this.#open(name, 0));
    this.#opened(name, port);
    this.#log.note(`${name} listens on ${port.url}`);
  }

  #opened(name: string, port: EnginePort): void {
    this.#byName.set(name, port);
    this.#lastNumbers.set(name, Number(new URL(port.url).port || 80));
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
