/** The server's open ports: one for each service, and the operator's, which has the routes of all the others. */
import type { Hono } from 'hono';
import type { SamplingParams } from '../engine/types.ts';
import type { FaultBoard } from '../faults/board.ts';
import { createApp } from './app.ts';
import type { EnginePort } from './engine-ports.ts';
import type { AccessOptions } from './http/access.ts';
import { Admission } from './http/admission.ts';
import { ownNames } from './http/host-check.ts';
import { closePorts, FAREWELL_MS, listenOn, type OpenPort, urlOf } from './http/listening.ts';
import type { ServerLog } from './http/log.ts';
import type { Ports } from './http/ports.ts';
import type { Observability } from './observability.ts';
import { portFailure } from './operator/faults-route.ts';
import { adminApp, isOperator, mountOnClientPort, type Observed } from './operator/operator.ts';
import type { PortService } from './service.ts';

export interface PortOptions extends AccessOptions {
  ports: Ports;
  maxQueue: number;
  corsOrigins: readonly string[];
  /** Host names that requests may use, in addition to this machine's own; '*': any. */
  allowedHosts: readonly string[];
  streamingKvParams: boolean;
  /** Milliseconds after which a connection ends if its client reads none of the waiting bytes. */
  writeTimeoutMs: number;
  /** Sampling parameters for requests that do not set them. */
  defaults: Partial<SamplingParams>;
  version: string;
  log: ServerLog;
}

export class OpenPorts {
  /** Host names that requests to the clients' ports may use. */
  readonly hosts: readonly string[];
  readonly #options: PortOptions;
  readonly #local: boolean;
  readonly #faults: FaultBoard | null;
  readonly #created = Math.floor(Date.now() / 1000);
  readonly #opened = new Set<OpenPort>();
  readonly #observed = new Set<Observed>();
  /** Rebuilt after every change of the ports: a Hono app cannot get new routes once it has served a request. */
  #adminApp: Hono | null = null;

  /** `local`: only this machine can reach the clients' ports. */
  constructor(options: PortOptions, local: boolean, faults: FaultBoard | null) {
    this.#options = options;
    this.#local = local;
    this.#faults = faults;
    this.hosts = this.#namesOf(options.host);
  }

  /** Throws ConfigError; the observability is then closed too. */
  async open(service: PortService, observability: Observability, port: number): Promise<EnginePort> {
    const { host, maxQueue, writeTimeoutMs } = this.#options;
    const entry = { service, observability };
    const admission = new Admission(service.maxNumSeqs, maxQueue);
    const app = this.#clientApp(entry, admission);
    const server = await listenOn(app, { host, port, writeTimeoutMs }).catch((error: unknown) => {
      observability.close();
      throw error;
    });
    const opened = { server, admission, operator: false };
    this.#opened.add(opened);
    this.#observed.add(entry);
    this.#adminApp = null;
    return {
      url: urlOf(host, server),
      close: async () => {
        this.#opened.delete(opened);
        this.#observed.delete(entry);
        this.#adminApp = null;
        observability.close();
        await closePorts(
          [opened],
          FAREWELL_MS,
          `engine ${service.name} has left the fleet: use another engine`,
        );
      },
    };
  }

  /**
   * Opens the operator's port and returns its URL. `mount` adds routes to those of the other ports. Its requests enter
   * the admission only to be answered when the port closes. Throws ConfigError.
   */
  async openAdmin(mount: (app: Hono, admission: Admission) => void): Promise<string> {
    const { adminHost: host, ports, writeTimeoutMs } = this.#options;
    const admission = new Admission(Number.POSITIVE_INFINITY, 0);
    const make = (): Hono => {
      const app = adminApp([...this.#observed], { ...this.#options, hosts: this.#namesOf(host) });
      mount(app, admission);
      return app;
    };
    const fetch: Hono['fetch'] = (...args) => {
      this.#adminApp ??= make();
      return this.#adminApp.fetch(...args);
    };
    const server = await listenOn({ fetch }, { host, port: ports.admin, writeTimeoutMs });
    this.#opened.add({ server, admission, operator: true });
    return urlOf(host, server);
  }

  /** Waits up to `graceMs` for the requests in progress, then aborts them. */
  async close(graceMs: number): Promise<void> {
    for (const { observability } of this.#observed) observability.close();
    await closePorts([...this.#opened], graceMs, 'the server is stopping');
  }

  #clientApp(entry: Observed, admission: Admission): Hono {
    const { service, observability } = entry;
    const { adminKey, adminOnClientPorts } = this.#options;
    const rule = { adminKey, local: this.#local };
    return createApp(service, {
      ...this.#options,
      ...{ admission, hosts: this.hosts, created: this.#created },
      observer: observability.observer,
      answered: observability.answered,
      failure: () => {
        const fault = this.#faults?.atPort(service.name);
        return fault ? portFailure(fault) : null;
      },
      mount(app) {
        observability.mountMetrics(app, isOperator(rule));
        if (adminOnClientPorts) mountOnClientPort(app, entry, rule);
      },
    });
  }

  #namesOf(host: string): string[] {
    return [...ownNames(host), ...this.#options.allowedHosts];
  }
}
